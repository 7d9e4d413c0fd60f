// The rows of `tracing.`.
#include <charconv>
#include <cmath>

#include "app/setting_rows.h"
#include "net/url.h"

namespace weir::app {
namespace {

Status check_each(const Values& values, Status (*check)(const std::string&)) {
  for (const auto& v : values)
    if (auto s = check(v); !s.ok()) return s;
  return {};
}

Status check_collector(const Values& values) {
  for (const auto& v : values)
    if (auto url = net::parse_url(v); !v.empty() && !url)
      return invalid("expected a URL like http://collector:4318: " + url.error().text);
  return {};
}

}  // namespace

base::Result<double> parse_ratio(std::string_view text) {
  double ratio = -1;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ratio);
  if (error != std::errc() || end != text.data() + text.size() || !(ratio >= 0 && ratio <= 1))
    return invalid("expected a ratio from 0 to 1, got '" + std::string(text) + "'");
  return ratio;
}

namespace {

std::string show_ratio(double ratio) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, ratio).ptr};
}

}  // namespace

void add_tracing(std::vector<Setting>& rows, Config& c) {
  using Compression = TracingConfig::Compression;
  using Parent = wire::TraceRules::Parent;
  TracingConfig& t = c.tracing;
  rows.push_back(in_help(checked(
      text("tracing.otlp", "URL", "OpenTelemetry collector that gets spans by OTLP over HTTP; empty = off", t.otlp),
      check_collector)));
  rows.push_back(
      secret(checked(list("tracing.headers", "NAME=VALUE", "headers for the collector; repeatable", t.headers),
                     [](const Values& values) { return check_each(values, check_header); })));
  rows.push_back(in_help(row("tracing.sample", "RATIO", "part of the requests that is traced, 0 to 1", t.rules.ratio,
                             parse_ratio, show_ratio)));
  rows.push_back(choice<Parent>(
      "tracing.parent", "respect, sample, ignore: what the trace that a client names means", t.rules.parent,
      {{"respect", Parent::kRespect}, {"sample", Parent::kSample}, {"ignore", Parent::kIgnore}}));
  rows.push_back(text("tracing.service_name", "NAME", "service.name of the spans; empty = weir", t.service_name));
  rows.push_back(checked(list("tracing.resource", "KEY=VALUE", "attributes of this server; repeatable", t.resource),
                         [](const Values& values) { return check_each(values, check_pair); }));
  rows.push_back(
      list("tracing.baggage", "KEY", "keys of clients' baggage that become attributes; repeatable", t.baggage));
  rows.push_back(choice<Compression>("tracing.compression", "none, gzip: of what goes to the collector", t.compression,
                                     {{"none", Compression::kNone}, {"gzip", Compression::kGzip}}));
  rows.push_back(
      duration("tracing.timeout", "of one request to the collector", t.timeout, std::chrono::milliseconds(1)));
  rows.push_back(path("tracing.ca_file", "PEM: authorities to believe about an https collector", t.ca_file));
}

}  // namespace weir::app
