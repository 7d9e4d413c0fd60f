#include "app/tracing.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <map>
#include <utility>

#include "app/version.h"
#include "base/encoding.h"
#include "dialects/ops/otlp.h"
#include "net/client.h"
#include "net/tls.h"
#include "net/url.h"
#include "wire/coding.h"
#include "wire/text.h"

namespace weir::app {
namespace {

using base::Code;
using base::Result;
using base::Status;
using Reply = ops::SpanExporter::Reply;

constexpr uint64_t kLargestAnswer = 64 << 10;          // of a collector
constexpr auto kLongestPause = std::chrono::hours(1);  // that a collector may ask for

std::pair<std::string, std::string> split_pair(const std::string& pair) {
  size_t equals = std::min(pair.find('='), pair.size());
  return {std::string(wire::trim(pair.substr(0, equals))),
          std::string(wire::trim(std::string_view(pair).substr(std::min(equals + 1, pair.size()))))};
}

ops::ResourceAttributes resource_of(const TracingConfig& config) {
  char host[256] = {};
  (void)::gethostname(host, sizeof host - 1);
  std::map<std::string, std::string> all{{"service.name", "weir"},
                                         {"service.version", std::string(kVersion)},
                                         {"host.name", base::presentable(host, sizeof host)},
                                         {"process.pid", std::to_string(::getpid())}};
  for (const auto& pair : config.resource) {
    auto [key, value] = split_pair(pair);
    all[key] = base::presentable(value, ops::SpanWriter::kLongestText);
  }
  if (!config.service_name.empty()) all["service.name"] = config.service_name;
  return {all.begin(), all.end()};
}

// RFC 9110 §10.2.3: seconds or a date. Negative: neither.
base::Duration retry_after(std::string_view text) {
  int64_t seconds = -1;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size()) {
    std::tm date{};
    const char* rest = ::strptime(std::string(text).c_str(), "%a, %d %b %Y %H:%M:%S GMT", &date);
    if (!rest) return base::Duration(-1);
    seconds = std::max<int64_t>(::timegm(&date) - std::time(nullptr), 0);
  }
  return std::min<base::Duration>(std::chrono::seconds(std::clamp<int64_t>(seconds, -1, 1 << 30)), kLongestPause);
}

}  // namespace

base::Status check_pair(const std::string& pair) {
  auto [key, value] = split_pair(pair);
  if (key.empty() || pair.find('=') == std::string::npos)
    return base::invalid("expected name=value, got '" + pair.substr(0, pair.find('=')) + "'");
  return {};
}

// The value may be a secret: it is not told.
base::Status check_header(const std::string& pair) {
  if (auto s = check_pair(pair); !s.ok()) return s;
  auto [name, value] = split_pair(pair);
  auto token = [](char c) {
    return c > ' ' && c < 0x7f && std::string_view("\"(),/:;<=>?@[\\]{}").find(c) == std::string_view::npos;
  };
  if (!std::all_of(name.begin(), name.end(), token) || wire::has_control(value))
    return base::invalid("'" + base::presentable(name, 64) +
                         "': expected the name of a header and a value in one line");
  return {};
}

// Where spans go. Shared with the exporter's thread, which may outlive Tracing.
class Tracing::Collector {
 public:
  static Result<std::shared_ptr<Collector>> make(const TracingConfig& config);
  Reply post(const std::string& spans) const;
  void cut_off() { interrupt_.raise(); }

 private:
  Reply read(const net::Client::Reply& answer) const;

  net::Interrupt interrupt_;
  std::unique_ptr<const net::Client> client_;
  std::string target_;
  net::Client::HeaderList fields_;
  ops::ResourceAttributes resource_;
  TracingConfig::Compression compression_ = TracingConfig::Compression::kNone;
};

// A URL without a path is the collector's root, below which traces have a path of their own.
Result<std::shared_ptr<Tracing::Collector>> Tracing::Collector::make(const TracingConfig& config) {
  auto url = net::parse_url(config.otlp);
  if (!url) return base::failure(url.error().code, "tracing.otlp: " + url.error().text);
  auto out = std::make_shared<Collector>();
  net::Client::Options options;
  options.timeout = config.timeout;
  options.largest_reply = kLargestAnswer;
  options.interrupt = &out->interrupt_;
  if (url->scheme == net::Url::Scheme::kHttps) {
    auto tls = net::TlsContext::for_client(config.ca_file);
    if (!tls) return base::failure(tls.error().code, "tracing.ca_file: " + tls.error().text);
    options.tls = std::move(*tls), options.tls_host = url->host;
  }
  const bool ipv6 = url->host.find(':') != std::string::npos;
  std::string address = (ipv6 ? "[" + url->host + "]" : url->host) + ":" + std::to_string(url->port);
  out->client_ = std::make_unique<const net::Client>(address, std::move(options));
  out->target_ = url->target == "/" ? "/v1/traces" : url->target;
  out->compression_ = config.compression;
  out->fields_ = {{"content-type", "application/x-protobuf"},
                  {"user-agent", "OTel-OTLP-Exporter-weir/" + std::string(kVersion)}};
  if (config.compression == TracingConfig::Compression::kGzip) out->fields_.emplace_back("content-encoding", "gzip");
  for (const auto& pair : config.headers) out->fields_.push_back(split_pair(pair));
  out->resource_ = resource_of(config);
  return out;
}

Reply Tracing::Collector::post(const std::string& spans) const {
  std::string body = ops::export_request(resource_, kVersion, spans);
  if (compression_ == TracingConfig::Compression::kGzip) {
    const auto plain = base::Bytes::adopt(std::move(body));
    body = wire::deflate(wire::Coding::kGzip, {&plain, 1}).view();
  }
  auto answer = client_->request("POST", target_, fields_, body);
  if (answer) return read(*answer);
  // An answer that is too large is one: the spans may have been taken.
  const bool answered = answer.error().code == Code::kResourceExhausted;
  return {answered ? Reply::Fate::kRefused : Reply::Fate::kTryAgain, base::Duration(-1), 0, answer.error().text};
}

Reply Tracing::Collector::read(const net::Client::Reply& answer) const {
  Reply out;
  if (answer.status >= 200 && answer.status < 300) {
    auto partial = ops::read_export_response(answer.body);
    out.rejected = partial.rejected, out.why = std::move(partial.why);
    return out;
  }
  const bool again = answer.status == 429 || answer.status == 502 || answer.status == 503 || answer.status == 504;
  out.fate = again ? Reply::Fate::kTryAgain : Reply::Fate::kRefused;
  if (again) out.pause = retry_after(answer.find("retry-after"));
  out.why = "it answered " + std::to_string(answer.status);
  return out;
}

Tracing::Tracing(const TracingConfig& config, std::shared_ptr<Collector> collector, base::Metrics& metrics)
    : config_(config), collector_(std::move(collector)) {
  auto post = [collector = collector_](std::string spans) { return collector->post(spans); };
  exporter_ = std::make_unique<ops::SpanExporter>(std::move(post), ops::ExportRules{}, metrics);
}

Tracing::~Tracing() = default;

Result<std::unique_ptr<Tracing>> Tracing::open(const TracingConfig& config, base::Metrics& metrics) {
  if (config.otlp.empty()) return std::unique_ptr<Tracing>();
  auto collector = Collector::make(config);
  if (!collector) return collector.error();
  return std::unique_ptr<Tracing>(new Tracing(config, std::move(*collector), metrics));
}

void Tracing::stop(base::Duration most) {
  exporter_->stop(most, [this] { collector_->cut_off(); });
}

}  // namespace weir::app
