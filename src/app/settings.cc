#include "app/settings.h"

#include <algorithm>
#include <type_traits>

#include "base/encoding.h"
#include "base/units.h"

namespace weir::app {
namespace {

using Form = Setting::Form;
using Shown = Setting::Shown;
using Values = Setting::Values;
using base::invalid;
using base::Status;

// A row; `at` gives the place in the Config, const or not.
template <class At, class Parse, class Show>
Setting row(std::string_view key, std::string_view unit, std::string_view help, At at, Parse parse, Show show) {
  Setting s;
  s.key = key, s.unit = unit, s.help = help;
  s.set = [at, parse](Config& config, const Values& values) -> Status {
    if (values.size() != 1) return invalid("expected one value");
    auto parsed = parse(values[0]);
    if (!parsed) return parsed.error();
    auto& place = at(config);
    place = static_cast<std::remove_reference_t<decltype(place)>>(*parsed);
    return {};
  };
  s.get = [at, show](const Config& config) { return Values{show(at(const_cast<Config&>(config)))}; };
  return s;
}

template <class At>
Setting text(std::string_view key, std::string_view unit, std::string_view help, At at) {
  return row(
      key, unit, help, at, [](const std::string& v) { return base::Result<std::string>(v); },
      [](const std::string& v) { return v; });
}

template <class At>
Setting path(std::string_view key, std::string_view help, At at) {
  Setting s = text(key, "FILE", help, at);
  s.path = true;
  return s;
}

template <class At>
Setting count(std::string_view key, std::string_view help, At at, uint64_t least = 0, uint64_t most = UINT32_MAX) {
  auto parse = [least, most](const std::string& v) -> base::Result<uint64_t> {
    auto n = base::parse_count(v, most);
    if (n && *n < least) return invalid("expected at least " + std::to_string(least) + ", got " + v);
    return n;
  };
  return row(key, "N", help, at, parse, [](uint64_t v) { return std::to_string(v); });
}

template <class At>
Setting size(std::string_view key, std::string_view help, At at, uint64_t least, uint64_t most) {
  auto parse = [least, most](const std::string& v) -> base::Result<uint64_t> {
    auto n = base::parse_size(v);
    if (n && (*n < least || *n > most))
      return invalid("expected " + base::show_size(least) + " to " + base::show_size(most) + ", got " + v);
    return n;
  };
  return row(key, "SIZE", help, at, parse, [](uint64_t v) { return base::show_size(v); });
}

template <class At>
Setting duration(std::string_view key, std::string_view help, At at, base::Duration least = base::Duration(0)) {
  auto parse = [least](const std::string& v) -> base::Result<base::Duration> {
    auto d = base::parse_duration(v);
    if (d && *d < least) return invalid("expected at least " + base::show_duration(least) + ", got " + v);
    return d;
  };
  return row(key, "TIME", help, at, parse, [](base::Duration v) { return base::show_duration(v); });
}

template <class At>
Setting flag(std::string_view key, std::string_view help, At at) {
  Setting s = row(
      key, "", help, at, [](const std::string& v) { return base::parse_switch(v); },
      [](bool v) { return std::string(v ? "true" : "false"); });
  s.form = Form::kFlag;
  return s;
}

// One of a few words; `at` holds an enumerator or the word itself.
template <class At, class T>
Setting choice(std::string_view key, std::string_view help, At at, std::vector<std::pair<std::string, T>> words) {
  auto parse = [words](const std::string& v) -> base::Result<T> {
    std::string all;
    for (const auto& [word, value] : words) {
      if (word == v) return value;
      all += (all.empty() ? "" : ", ") + word;
    }
    return invalid("expected one of " + all + ", got '" + v + "'");
  };
  auto show = [words](const T& v) {
    for (const auto& [word, value] : words)
      if (value == v) return word;
    return std::string();
  };
  return row(key, "WORD", help, at, parse, show);
}

template <class At>
Setting list(std::string_view key, std::string_view unit, std::string_view help, At at) {
  Setting s;
  s.key = key, s.unit = unit, s.help = help;
  s.form = Form::kList;
  s.set = [at](Config& config, const Values& values) -> Status {
    if (std::count(values.begin(), values.end(), "")) return invalid("an empty entry");
    at(config) = values;
    return {};
  };
  s.get = [at](const Config& config) { return at(const_cast<Config&>(config)); };
  return s;
}

Setting named(Setting s, std::string_view flag_name) {
  s.flag = flag_name;
  s.shown = Shown::kInHelp;
  return s;
}
Setting in_help(Setting s) { return named(std::move(s), s.flag); }

#define AT(member) \
  [](Config & c) -> auto& { return c.member; }

void add_listening(std::vector<Setting>& rows) {
  rows.push_back(
      in_help(list("listen", "ADDR", "address to listen on: HOST:PORT or unix:PATH; repeatable", AT(listen))));
  rows.push_back(in_help(count("shards", "threads that serve connections; 0 = one per core", AT(shards), 0, 256)));
  rows.push_back(flag("pin", "keep each shard on one core", AT(pin)));
  rows.push_back(duration("spin", "how long a shard looks for work before it sleeps: latency for a core", AT(spin)));
  rows.push_back(
      named(path("tls.certificate", "PEM file with the certificate chain", AT(tls.certificate)), "--tls-cert"));
  rows.push_back(in_help(path("tls.key", "PEM file with its key", AT(tls.key))));
  rows.push_back(in_help(path("tls.client_ca", "clients must show a certificate signed by this", AT(tls.client_ca))));
  rows.push_back(in_help(flag("tls.required", "refuse cleartext over TCP", AT(tls.required))));
}

void add_models(std::vector<Setting>& rows) {
  using models::Control;
  Setting roots = list("models.repository", "DIR", "folder with models (or several)", AT(models.roots));
  roots.path = true;
  rows.push_back(named(std::move(roots), "--models"));
  rows.push_back(
      named(choice<>("models.control", "how models come and go: none, poll, explicit", AT(models.control),
                     std::vector<std::pair<std::string, Control>>{
                         {"none", Control::kNone}, {"poll", Control::kPoll}, {"explicit", Control::kExplicit}}),
            "--control"));
  rows.push_back(duration("models.poll_interval", "how often poll looks", AT(models.poll_interval),
                          std::chrono::milliseconds(10)));
  rows.push_back(named(
      list("models.startup", "NAME", "explicit: models to load at start, * = all; repeatable", AT(models.startup)),
      "--load"));
  using Missing = models::DeviceSupply::Missing;
  rows.push_back(
      choice<>("models.missing_devices", "instances for devices that are not there: error, or on the cpu",
               AT(models.devices.missing),
               std::vector<std::pair<std::string, Missing>>{{"error", Missing::kError}, {"cpu", Missing::kCpu}}));
  rows.push_back(named(flag("models.strict", "a model that fails at start ends the server (exit 4)", AT(models.strict)),
                       "--strict"));
  rows.push_back(flag("models.allow_config_override", "load requests may bring a configuration and files",
                      AT(models.allow_config_override)));
  rows.push_back(count("models.max_concurrency", "calls inside the engines at once, of all models; 0 = any number",
                       AT(models.max_concurrency)));
  rows.push_back(count("models.max_batch", "for models that can be batched and do not say how far",
                       AT(models.max_batch), 1, 65536));
  rows.push_back(flag("models.batching.dynamic", "calls share batches", AT(models.batching.dynamic)));
  rows.push_back(duration("models.batching.max_delay", "how long a call waits for company while the engine is idle",
                          AT(models.batching.max_delay)));
  rows.push_back(count("models.batching.priority_levels", "0 = priorities are ignored",
                       AT(models.batching.priority_levels), 0, 1000));
  rows.push_back(count("models.batching.max_queue", "calls that wait for one model; 0 = without limit",
                       AT(models.batching.max_queue)));
  rows.push_back(duration("models.batching.queue_timeout", "longest wait; 0 = as long as the client waits",
                          AT(models.batching.queue_timeout)));
}

void add_engines(std::vector<Setting>& rows) {
  rows.push_back(
      named(path("engines.onnx.library", "ONNX Runtime's libonnxruntime.so", AT(onnx.library)), "--onnx-library"));
  rows.push_back(named(count("engines.onnx.intra_op_threads", "threads of one model instance; 0 = one per core",
                             AT(onnx.intra_op_threads), 0, 1024),
                       "--onnx-threads"));
  rows.push_back(count("engines.onnx.inter_op_threads", "operators side by side", AT(onnx.inter_op_threads), 0, 1024));
  rows.push_back(choice<>("engines.onnx.graph_optimization", "disable, basic, extended, all",
                          AT(onnx.graph_optimization),
                          std::vector<std::pair<std::string, std::string>>{
                              {"disable", "disable"}, {"basic", "basic"}, {"extended", "extended"}, {"all", "all"}}));
  rows.push_back(flag("engines.onnx.memory_arena", "keep freed memory for the next step", AT(onnx.memory_arena)));
}

void add_devices(std::vector<Setting>& rows) {
  using Use = device::DeviceOptions::Use;
  constexpr uint64_t kG = 1 << 30;
  rows.push_back(choice<>("device.cuda", "auto (where there is a GPU), off", AT(device.cuda),
                          std::vector<std::pair<std::string, Use>>{{"auto", Use::kAuto}, {"off", Use::kOff}}));
  rows.push_back(path("device.module", "libweir_cuda.so; empty = beside weir", AT(device.module)));
  rows.push_back(size("device.pinned_pool", "with CUDA: takes the place of limits.slab_budget, pinned; 0 = not pinned",
                      AT(pinned_pool), 0, 1024 * kG));
  rows.push_back(size("device.batch_memory", "device memory of batches under way, per GPU; more wait",
                      AT(device.batch_memory), uint64_t(1) << 20, 1024 * kG));
}

void add_limits(std::vector<Setting>& rows) {
  constexpr uint64_t kK = 1 << 10, kM = 1 << 20, kG = 1 << 30;
  rows.push_back(named(size("limits.body", "largest HTTP body, also after inflating", AT(limits.body), kK, 64 * kG),
                       "--max-body"));
  rows.push_back(
      named(size("limits.message", "largest gRPC message, also after inflating", AT(limits.message), kK, 2 * kG),
            "--max-message"));
  rows.push_back(count("limits.inflate_ratio", "inflated : coded", AT(limits.inflate_ratio), 1));
  rows.push_back(size("limits.header_bytes", "request head (431 above)", AT(limits.header_bytes), kK, 16 * kM));
  rows.push_back(size("limits.header_bytes_hard", "request head (connection closed above)",
                      AT(limits.header_bytes_hard), kK, 16 * kM));
  rows.push_back(count("limits.header_fields", "header fields (431 above)", AT(limits.header_fields), 1, 100000));
  rows.push_back(count("limits.header_fields_hard", "header fields (connection closed above)",
                       AT(limits.header_fields_hard), 1, 100000));
  rows.push_back(count("limits.streams", "HTTP/2 streams of one connection", AT(limits.streams), 1, 100000));
  rows.push_back(
      count("limits.pipelined", "HTTP/1 requests waiting on one connection", AT(limits.pipelined), 1, 10000));
  rows.push_back(count("limits.connections", "of the whole server", AT(connections), 1));
  rows.push_back(count("limits.in_flight", "calls at once, per shard", AT(in_flight), 1));
  rows.push_back(
      count("limits.conn_calls", "unanswered requests of all gRPC streams of one connection", AT(conn_calls), 1));
  rows.push_back(named(
      size("limits.slab_budget", "memory for requests, batches and answers", AT(slab_budget), 16 * kM, kG * kK * kK),
      "--slab-budget"));
  rows.push_back(
      size("limits.stream_window", "HTTP/2 receive window of a stream", AT(limits.stream_window), 64 * kK, kG));
  rows.push_back(size("limits.conn_window", "and of a connection", AT(limits.conn_window), 64 * kK, kG));
  rows.push_back(duration("limits.sniff_timeout", "until the first bytes have decided", AT(limits.sniff)));
  rows.push_back(duration("limits.head_timeout", "until a request head is complete", AT(limits.head)));
  rows.push_back(duration("limits.idle_timeout", "of a connection without requests", AT(limits.idle)));
  rows.push_back(duration("limits.stream_idle_timeout", "of a request without progress", AT(limits.stream_idle)));
  rows.push_back(
      size("limits.min_body_rate", "bytes per second that a sender must keep up", AT(limits.min_body_rate), 0, kG));
  rows.push_back(size("limits.min_drain_rate", "and a receiver", AT(limits.min_drain_rate), 0, kG));
}

void add_protocols(std::vector<Setting>& rows) {
  rows.push_back(flag("protocols.graphpipe", "serve GraphPipe", AT(graphpipe.on)));
  rows.push_back(flag("protocols.grps", "serve GRPS", AT(grps_on)));
  rows.push_back(flag("protocols.openai", "serve the OpenAI API", AT(openai.on)));
  rows.push_back(flag("protocols.salience", "serve Salience", AT(salience.on)));
  rows.push_back(flag("protocols.evergreen", "serve Evergreen", AT(evergreen_on)));
  auto parse = [](const std::string& v) -> base::Result<std::string> {
    bool good = v.size() > 1 && v[0] == '/' && v.back() != '/' && v.find_first_of("{}?# ") == v.npos;
    if (!good) return invalid("expected a path like /graphpipe, got '" + v + "'");
    return v;
  };
  rows.push_back(row("graphpipe.prefix", "PATH", "models are at PATH/<model>", AT(graphpipe.prefix), parse,
                     [](const std::string& v) { return v; }));
  rows.push_back(flag("graphpipe.root_post", "POST / is GraphPipe, too", AT(graphpipe.root_post)));
  rows.push_back(
      text("graphpipe.default_model", "NAME", "for requests that name no model", AT(graphpipe.default_model)));
}

void add_grps(std::vector<Setting>& rows) {
  using grps::HttpStatus;
  using grps::StreamFormat;
  rows.push_back(text("grps.default_model", "NAME", "for requests that name no model", AT(grps.default_model)));
  rows.push_back(choice<>("grps.http_status", "real, body-only", AT(grps.http_status),
                          std::vector<std::pair<std::string, HttpStatus>>{{"real", HttpStatus::kReal},
                                                                          {"body-only", HttpStatus::kBodyOnly}}));
  rows.push_back(
      choice<>("grps.stream_format", "grps, ndjson, sse", AT(grps.stream_format),
               std::vector<std::pair<std::string, StreamFormat>>{
                   {"grps", StreamFormat::kGrps}, {"ndjson", StreamFormat::kNdjson}, {"sse", StreamFormat::kSse}}));
  rows.push_back(text("grps.stream_content_type", "TYPE", "of streamed answers; empty = the format's own",
                      AT(grps.stream_content_type)));
}

// Kept out of what `weir check` shows.
Setting secret(Setting s) {
  auto get = s.get;
  s.get = [get](const Config& config) { return get(config) == Values{""} ? Values{""} : Values{"(a secret)"}; };
  return s;
}

void add_openai(std::vector<Setting>& rows) {
  Setting prefixes = list("openai.prefixes", "PATH", "where the endpoints are", AT(openai.prefixes));
  prefixes.set = [store = prefixes.set](Config& config, const Values& values) -> Status {
    for (const auto& v : values)
      if (v.size() < 2 || v[0] != '/' || v.back() == '/' || v.find_first_of("{}?# ") != v.npos)
        return invalid("expected paths like /v1, got '" + v + "'");
    return store(config, values);
  };
  rows.push_back(std::move(prefixes));
  rows.push_back(text("openai.default_model", "NAME", "for requests that name no model", AT(openai.default_model)));
  Setting keys = list("openai.api_keys", "SECRET", "clients must show one of them", AT(openai.api_keys));
  keys.get = [](const Config& config) {
    return config.openai.api_keys.empty() ? Values{}
                                          : Values{"(" + std::to_string(config.openai.api_keys.size()) + " secrets)"};
  };
  rows.push_back(std::move(keys));
  rows.push_back(path("openai.api_keys_file", "more of them, one per line", AT(openai.api_keys_file)));
  rows.push_back(size("openai.max_body", "largest request", AT(openai.max_body), 1 << 10, uint64_t(1) << 30));
}

void add_sessions(std::vector<Setting>& rows) {
  using std::chrono::milliseconds;
  rows.push_back(text("salience.default_model", "NAME", "for sessions that name no model", AT(salience.default_model)));
  rows.push_back(secret(text("salience.bearer_token", "SECRET", "that clients must show", AT(salience.bearer_token))));
  rows.push_back(path("salience.bearer_token_file", "several, one per line; each is a tenant of its own",
                      AT(salience.bearer_token_file)));
  rows.push_back(duration("sessions.idle", "how long a session lives without use", AT(sessions.idle), milliseconds(1)));
  rows.push_back(duration("sessions.lifetime", "and how long at most", AT(sessions.lifetime), milliseconds(1)));
  rows.push_back(count("sessions.per_tenant", "sessions of one tenant", AT(sessions.per_tenant), 1));
  rows.push_back(count("sessions.depth", "forks of forks", AT(sessions.depth), 0, 1000000));
  rows.push_back(count("sessions.children", "forks of one session that live", AT(sessions.children), 0));
  rows.push_back(
      size("sessions.bytes", "tokens and images of one session", AT(sessions.bytes), 1 << 10, uint64_t(1) << 40));
  rows.push_back(
      size("sessions.total_bytes", "and of all sessions", AT(sessions.total_bytes), 1 << 20, uint64_t(1) << 44));
}

void add_evergreen(std::vector<Setting>& rows) {
  using Unseen = evergreen::Options::Unseen;
  constexpr uint64_t kK = 1 << 10, kG = 1 << 30;
  rows.push_back(flag("evergreen.websocket", "sessions over WebSocket, too", AT(evergreen.websocket)));
  rows.push_back(
      text("evergreen.default_model", "NAME", "for actions that name no target", AT(evergreen.default_model)));
  rows.push_back(choice<>(
      "evergreen.unseen_content", "reject, describe", AT(evergreen.unseen),
      std::vector<std::pair<std::string, Unseen>>{{"reject", Unseen::kReject}, {"describe", Unseen::kDescribe}}));
  Setting roots = list("evergreen.references.file_roots", "DIR", "file: references name files below these folders",
                       AT(evergreen.references.file_roots));
  roots.path = true;
  rows.push_back(std::move(roots));
  rows.push_back(list("evergreen.references.schemes", "SCHEME", "http, https: references that are fetched; repeatable",
                      AT(fetch.schemes)));
  rows.push_back(list("evergreen.references.hosts", "HOST",
                      "that they may name: a.example, *.b.example:8443, *; repeatable", AT(fetch.hosts)));
  rows.push_back(list("evergreen.references.networks", "CIDR", "that they may reach although not public; repeatable",
                      AT(fetch.networks)));
  rows.push_back(path("evergreen.references.ca_file", "authorities to believe about https; empty = the system's",
                      AT(fetch.ca_file)));
  rows.push_back(
      duration("evergreen.references.timeout", "of one fetch", AT(fetch.timeout), std::chrono::milliseconds(10)));
  rows.push_back(size("evergreen.references.max_bytes", "of what one reference names",
                      AT(evergreen.references.max_bytes), kK, kG));
  rows.push_back(size("evergreen.max_message", "one WebSocket message, one line", AT(evergreen.max_message), kK, kG));
  rows.push_back(
      size("evergreen.session_bytes", "content of one session", AT(evergreen.graph.bytes), 64 * kK, 64 * kG));
  rows.push_back(count("evergreen.max_nodes", "of one session", AT(evergreen.graph.nodes), 16, 10'000'000));
  rows.push_back(count("evergreen.max_depth", "nodes inside each other", AT(evergreen.graph.depth), 2, 100'000));
  rows.push_back(count("evergreen.max_ahead", "fragments of a node that wait for an earlier one",
                       AT(evergreen.graph.ahead), 1, 1'000'000));
  rows.push_back(count("evergreen.max_actions", "of one session at once", AT(evergreen.max_actions), 1, 10'000));
  rows.push_back(duration("evergreen.idle",
                          "how long a session lives without a message; at most 9/10 of stream_idle_timeout",
                          AT(evergreen.idle), std::chrono::milliseconds(100)));
  rows.push_back(duration("evergreen.max_age", "of a session", AT(evergreen.max_age), std::chrono::seconds(1)));
}

void add_operations(std::vector<Setting>& rows) {
  using base::log::Format;
  using base::log::Level;
  rows.push_back(named(list("cors.origins", "ORIGIN", "web pages that may call, * = all; repeatable", AT(cors_origins)),
                       "--cors-origin"));
  Setting compat = list("metrics.compat", "NAME", "metric names of others as well: triton, vllm", AT(metrics_compat));
  auto store = compat.set;
  compat.set = [store](Config& config, const Values& values) -> Status {
    for (const auto& v : values)
      if (v != "triton" && v != "vllm") return invalid("expected triton or vllm, got '" + v + "'");
    return store(config, values);
  };
  rows.push_back(in_help(std::move(compat)));
  rows.push_back(in_help(choice<>("log.level", "verbose, info, warning, error, off", AT(log_level),
                                  std::vector<std::pair<std::string, Level>>{{"verbose", Level::kVerbose},
                                                                             {"info", Level::kInfo},
                                                                             {"warning", Level::kWarning},
                                                                             {"error", Level::kError},
                                                                             {"off", Level::kOff}})));
  rows.push_back(
      in_help(choice<>("log.format", "text or json", AT(log_format),
                       std::vector<std::pair<std::string, Format>>{{"text", Format::kText}, {"json", Format::kJson}})));
  Setting access = path("access_log", "off, - (standard output) or a file; one JSON line per request", AT(access_log));
  access.unit = "WHERE";
  rows.push_back(in_help(std::move(access)));
  rows.push_back(
      named(duration("shutdown.drain_delay", "still serving, but not ready", AT(drain_delay)), "--drain-delay"));
  rows.push_back(named(duration("shutdown.drain_timeout", "longest wait for open requests", AT(drain_timeout)),
                       "--drain-timeout"));
}

#undef AT

}  // namespace

std::string Setting::flag_name() const {
  if (!flag.empty()) return std::string(flag);
  std::string out = "--" + std::string(key);
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c == '.' || c == '_'; }, '-');
  return out;
}

std::string Setting::environment_name() const {
  std::string out = "WEIR_";
  for (char c : key) out += c == '.' ? '_' : char(c >= 'a' && c <= 'z' ? c - 32 : c);
  return out;
}

const std::vector<Setting>& settings() {
  static const std::vector<Setting> rows = [] {
    std::vector<Setting> all;
    add_listening(all);
    add_models(all);
    add_engines(all);
    add_devices(all);
    add_limits(all);
    add_protocols(all);
    add_grps(all);
    add_openai(all);
    add_sessions(all);
    add_evergreen(all);
    add_operations(all);
    return all;
  }();
  return rows;
}

}  // namespace weir::app
