// Which protocols are served, and what each of them wants to know.
#include "app/setting_rows.h"

namespace weir::app {
namespace {

void add_switches(std::vector<Setting>& rows) {
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
  auto control = [](const std::string& v) -> base::Result<std::string> {
    if (std::string wrong = grps::check_streaming(v); !wrong.empty()) return invalid(wrong + ", got '" + v + "'");
    return v;
  };
  rows.push_back(row("grps.streaming", "query_param:KEY, header_param:KEY, body_param:KEY",
                     "what switches streaming on in infer/predict", AT(grps.streaming), control,
                     [](const std::string& v) { return v; }));
  rows.push_back(text("grps.stream_content_type", "TYPE", "of streamed answers; empty = the format's own",
                      AT(grps.stream_content_type)));
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
  rows.push_back(choice<>("sessions.anonymous",
                          "per_address, shared: who shares sessions and cached prefixes, of clients without a secret",
                          AT(anonymous),
                          std::vector<std::pair<std::string, msg::Anonymous>>{
                              {"per_address", msg::Anonymous::kPerAddress}, {"shared", msg::Anonymous::kShared}}));
  rows.push_back(duration("sessions.idle", "how long a session lives without use", AT(sessions.idle), milliseconds(1)));
  rows.push_back(duration("sessions.lifetime", "and how long at most", AT(sessions.lifetime), milliseconds(1)));
  rows.push_back(count("sessions.per_tenant", "sessions of one tenant", AT(sessions.per_tenant), 1));
  rows.push_back(count("sessions.depth", "forks of forks", AT(sessions.depth), 0, 1000000));
  rows.push_back(count("sessions.children", "forks of one session that live", AT(sessions.children), 0));
  rows.push_back(
      size("sessions.bytes", "tokens and images of one session", AT(sessions.bytes), 1 << 10, uint64_t(1) << 40));
  rows.push_back(size("sessions.tenant_bytes", "and of all sessions of one tenant, where there are several",
                      AT(sessions.tenant_bytes), 1 << 10, uint64_t(1) << 44));
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
  rows.push_back(size("evergreen.tenant_bytes", "and of all sessions of clients of one host",
                      AT(evergreen.tenant_bytes), 64 * kK, uint64_t(1) << 44));
  rows.push_back(
      size("evergreen.total_bytes", "and of all sessions", AT(evergreen.total_bytes), 1 << 20, uint64_t(1) << 44));
  rows.push_back(count("evergreen.max_nodes", "of one session", AT(evergreen.graph.nodes), 16, 10'000'000));
  rows.push_back(count("evergreen.max_depth", "nodes inside each other", AT(evergreen.graph.depth), 2, 100'000));
  rows.push_back(count("evergreen.max_ahead", "fragments of a node that wait for an earlier one",
                       AT(evergreen.graph.ahead), 1, 1'000'000));
  rows.push_back(count("evergreen.max_actions", "of one session that models work on at once", AT(evergreen.max_actions),
                       1, 10'000));
  rows.push_back(duration("evergreen.idle",
                          "how long a session lives without a message; at most 9/10 of stream_idle_timeout",
                          AT(evergreen.idle), std::chrono::milliseconds(100)));
  rows.push_back(duration("evergreen.max_age", "of a session", AT(evergreen.max_age), std::chrono::seconds(1)));
}

}  // namespace

void add_protocols(std::vector<Setting>& rows) {
  add_switches(rows);
  add_grps(rows);
  add_openai(rows);
  add_sessions(rows);
  add_evergreen(rows);
}

}  // namespace weir::app
