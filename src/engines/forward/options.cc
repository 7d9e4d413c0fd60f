#include "engines/forward/options.h"

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "engines/forward/openai/api_path.h"

namespace weir::forward {
namespace {

using base::invalid;
using base::Status;

using Thinking = msg::TextSpec::RemoteChat::Thinking;

constexpr auto kShortestCheck = std::chrono::milliseconds(10);
constexpr uint32_t kMostOutstanding = 1 << 20, kLongestContext = 1 << 24;
constexpr uint32_t kWidestEmbedding = 1 << 16, kMostTexts = 2048;
constexpr std::string_view kMembers = "cluster";
constexpr uint64_t kLargestAnswer = uint64_t(4) << 30;

Status wrong(std::string_view name, const std::string& value, std::string_view expected) {
  return invalid("parameter '" + std::string(name) + "' is \"" + value + "\": " + std::string(expected) +
                 " is expected");
}

// Reads one parameter after the other; the first error stays.
class Parameters {
 public:
  explicit Parameters(const std::map<std::string, std::string>& all) : all_(all) {}

  template <class Take>
  void read(const char* name, Take&& take) {
    auto found = all_.find(name);
    if (found == all_.end() || !status_.ok()) return;
    status_ = take(found->second);
  }
  void text(const char* name, std::string& out) {
    read(name, [&](const std::string& value) { return out = value, Status(); });
  }
  void duration(const char* name, base::Duration least, base::Duration& out) {
    read(name, [&](const std::string& value) {
      auto parsed = base::parse_duration(value);
      if (!parsed || *parsed < least)
        return wrong(name, value, "a duration of " + base::show_duration(least) + " or more");
      return out = *parsed, Status();
    });
  }
  // From 1 to `most`.
  void count(const char* name, uint32_t most, uint32_t& out) {
    read(name, [&](const std::string& value) {
      auto parsed = base::parse_count(value, most);
      if (!parsed || *parsed == 0) return wrong(name, value, "a whole number from 1 to " + std::to_string(most));
      return out = uint32_t(*parsed), Status();
    });
  }
  const Status& status() const { return status_; }

 private:
  const std::map<std::string, std::string>& all_;
  Status status_;
};

constexpr std::pair<std::string_view, KindName> kKinds[] = {{"weir", KindName::kWeir},
                                                            {"oip-grpc", KindName::kOipGrpc},
                                                            {"oip-rest", KindName::kOipRest},
                                                            {"openai", KindName::kOpenai}};

Status read_kind(const std::map<std::string, std::string>& all, KindName& out) {
  std::string names;
  for (const auto& [name, kind] : kKinds) names += (names.empty() ? "" : " or ") + std::string(name);
  auto found = all.find("kind");
  if (found == all.end()) return invalid("'kind' is missing: it names the protocol of the origins, " + names);
  const std::string& text = found->second;
  for (const auto& [name, kind] : kKinds)
    if (name == text) return out = kind, Status();
  return wrong("kind", text, names);
}

// A time, or a percentile of how long calls take.
Status read_hedge(const std::string& value, Options& out) {
  if (value.starts_with('p')) {
    auto percent = base::parse_count(value.substr(1), 99);
    if (!percent || *percent < 50) return wrong("hedge_after", value, "a percentile from p50 to p99");
    return out.hedge_quantile = double(*percent) / 100, Status();
  }
  auto parsed = base::parse_duration(value);
  if (!parsed || parsed->count() <= 0) return wrong("hedge_after", value, "a duration, or a percentile as in p95,");
  return out.hedge_after = *parsed, Status();
}

Status read_load_report(const std::string& value, Options& out) {
  if (value == "none") return {};
  if (value == "orca") return out.load_reports = LoadReports::kOrca, Status();
  if (value != "metrics") return wrong("load_report", value, "none, orca or metrics");
  out.load_reports = LoadReports::kMetrics;
  if (out.kind == KindName::kOipRest || out.kind == KindName::kOpenai) return {};
  return invalid("parameter 'load_report' is \"metrics\": it needs kind oip-rest or openai");
}

Status read_binary_tensors(const std::string& value, Options& out) {
  if (out.kind != KindName::kOipRest) return invalid("parameter 'binary_tensors' needs kind oip-rest");
  if (value != "true" && value != "false") return wrong("binary_tensors", value, "true or false");
  return out.binary_tensors = value == "true", Status();
}

constexpr std::pair<std::string_view, OpenaiApi> kApis[] = {{"chat", OpenaiApi::kChat},
                                                            {"completions", OpenaiApi::kCompletions},
                                                            {"embeddings", OpenaiApi::kEmbeddings},
                                                            {"rerank", OpenaiApi::kRerank}};

Status read_api(const std::string& value, Options& out) {
  if (out.kind != KindName::kOpenai) return invalid("parameter 'api' needs kind openai");
  for (const auto& [name, api] : kApis)
    if (name == value) return out.api = api, Status();
  return wrong("api", value, "chat, completions, embeddings or rerank");
}

constexpr std::pair<std::string_view, Thinking> kThinking[] = {
    {"none", Thinking::kUntold}, {"variables", Thinking::kVariables}, {"effort", Thinking::kEffort}};

constexpr std::pair<std::string_view, TokenLimit> kTokenLimits[] = {
    {"max_tokens", TokenLimit::kMaxTokens}, {"max_completion_tokens", TokenLimit::kMaxCompletionTokens}};

// OpenAI's newer models refuse the older name, which all others know.
TokenLimit usual_token_limit(const std::vector<net::Url>& origins) {
  const bool theirs = !origins.empty() && std::all_of(origins.begin(), origins.end(), has_openai_models);
  return theirs ? TokenLimit::kMaxCompletionTokens : TokenLimit::kMaxTokens;
}

// Those that chats alone have.
void read_chat(Parameters& all, Options& out) {
  constexpr std::string_view kNeedsChat = "needs kind openai with api chat";
  const auto needed = [&](const char* name) {
    return out.api == OpenaiApi::kChat ? Status()
                                       : invalid("parameter '" + std::string(name) + "' " + std::string(kNeedsChat));
  };
  all.read("vision", [&](const std::string& value) {
    if (value != "true" && value != "false") return wrong("vision", value, "true or false");
    return out.vision = value == "true", needed("vision");
  });
  all.read("thinking", [&](const std::string& value) {
    for (const auto& [name, how] : kThinking)
      if (name == value) return out.thinking = how, needed("thinking");
    return wrong("thinking", value, "none, variables or effort");
  });
  if (out.api == OpenaiApi::kChat) out.token_limit = usual_token_limit(out.origins);
  all.read("token_limit", [&](const std::string& value) {
    for (const auto& [name, how] : kTokenLimits)
      if (name == value) return out.token_limit = how, needed("token_limit");
    return wrong("token_limit", value, "max_tokens or max_completion_tokens");
  });
}

Status read_local_first(const std::string& value, Options& out) {
  auto parsed = base::parse_count(value, kMostOutstanding);
  if (!parsed) return wrong("local_first", value, "a whole number up to " + std::to_string(kMostOutstanding));
  return out.local_first = uint32_t(*parsed), Status();
}

Status read_origins(const std::string& text, KindName kind, std::vector<net::Url>& out) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string one = text.substr(at, end - at);
    at = end + 1;
    if (one.empty()) continue;
    auto url = net::parse_url(one);
    if (!url) return invalid("origin '" + one + "' is no URL: " + url.error().text);
    if (url->target != "/" && kind != KindName::kOpenai)
      return invalid("origin '" + one + "' has a path: an address alone is expected");
    out.push_back(std::move(*url));
  }
  if (out.empty()) return invalid("'origins' is missing: it names who runs the model, as in http://10.0.0.7:8001");
  if (out.size() > kMostOrigins)
    return invalid(std::to_string(out.size()) + " origins: at most " + std::to_string(kMostOrigins) + " are possible");
  return {};
}

// No field of the message itself has such a name.
Status read_key_header(const std::string& value, Options& out) {
  const bool clean = std::all_of(value.begin(), value.end(),
                                 [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; });
  const bool of_key = value == "authorization" || value.ends_with("key") || value.ends_with("token");
  if (!clean || !of_key || value.size() > 64)
    return wrong("key_header", value, "a field in lower case that ends with key or token, as api-key,");
  if (out.key_file.empty()) return invalid("parameter 'key_header' needs 'key_file'");
  return out.key_header = value, Status();
}

void read_secrets(Parameters& all, Options& out) {
  all.text("ca_file", out.ca_file);
  all.text("key_file", out.key_file);
  all.read("key_header", [&](const std::string& value) { return read_key_header(value, out); });
}

// How calls are spread over the origins.
void read_balancing(Parameters& all, Options& out) {
  all.read("hedge_after", [&](const std::string& value) { return read_hedge(value, out); });
  all.read("load_report", [&](const std::string& value) { return read_load_report(value, out); });
  all.count("metrics_port", 65535, out.metrics_port);
}

// Those that embeddings and rankings alone have.
void read_texts(Parameters& all, Options& out) {
  all.read("max_texts", [&](const std::string&) {
    return out.has_rows() ? Status() : invalid("parameter 'max_texts' needs kind openai with api embeddings or rerank");
  });
  all.count("max_texts", kMostTexts, out.max_texts);
}

// Those that an api has no use for.
Status check_files(const Options& options) {
  const bool tokens = options.api == OpenaiApi::kChat || options.api == OpenaiApi::kRerank;
  if (tokens && !(options.tokenizer.empty() && options.tool_format.empty()))
    return invalid("parameter 'api' is \"" + std::string(options.api == OpenaiApi::kChat ? "chat" : "rerank") +
                   "\": its origins need no 'tokenizer' and no 'tool_format'");
  if (options.api == OpenaiApi::kEmbeddings && !options.tool_format.empty())
    return invalid("parameter 'api' is \"embeddings\": its origins need no 'tool_format'");
  return {};
}

}  // namespace

bool Options::any_tls() const {
  return std::any_of(origins.begin(), origins.end(),
                     [](const net::Url& url) { return url.scheme == net::Url::Scheme::kHttps; });
}

base::Result<Options> read_options(const msg::ModelSpec& wanted) {
  Options out;
  out.model = wanted.name;
  if (auto s = read_kind(wanted.parameters, out.kind); !s.ok()) return s;
  auto origins = wanted.parameters.find("origins");
  const std::string listed = origins == wanted.parameters.end() ? "" : origins->second;
  out.members = listed == kMembers;
  if (out.members && out.kind != KindName::kWeir) return invalid("origins: cluster needs kind: weir");
  if (!out.members)
    if (auto s = read_origins(listed, out.kind, out.origins); !s.ok()) return s;
  Parameters all(wanted.parameters);
  all.count("places", kMostOrigins, out.places);
  all.read("local_first", [&](const std::string& value) { return read_local_first(value, out); });
  all.text("model", out.model);
  all.text("version", out.version);
  all.read("binary_tensors", [&](const std::string& value) { return read_binary_tensors(value, out); });
  all.read("api", [&](const std::string& value) { return read_api(value, out); });
  read_chat(all, out);
  read_texts(all, out);
  read_secrets(all, out);
  all.text("tokenizer", out.tokenizer);
  all.text("tool_format", out.tool_format);
  all.duration("connect_timeout", kShortestCheck, out.connect_timeout);
  all.duration("answer_timeout", base::Duration(0), out.answer_timeout);
  all.duration("dns_interval", base::Duration(0), out.dns_interval);
  all.duration("check_interval", kShortestCheck, out.check_interval);
  read_balancing(all, out);
  all.count("max_length", kLongestContext, out.max_length);
  all.count("embedding_size", kWidestEmbedding, out.embedding_size);
  all.count("max_outstanding", kMostOutstanding, out.max_outstanding);
  all.read("max_answer", [&](const std::string& value) {
    auto parsed = base::parse_size(value);
    if (!parsed || *parsed == 0 || *parsed > kLargestAnswer) return wrong("max_answer", value, "a size up to 4GiB");
    return out.max_answer = *parsed, Status();
  });
  if (!all.status().ok()) return all.status();
  if (auto s = check_files(out); !s.ok()) return s;
  return out;
}

}  // namespace weir::forward
