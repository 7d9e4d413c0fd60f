#include "app/settings.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>

#include "app/setting_rows.h"
#include "base/encoding.h"
#include "base/network.h"
#include "net/address.h"
#include "wire/own_paths.h"
#include "wire/text.h"

namespace weir::app {
namespace {

Setting networks(Setting s) {
  return checked(std::move(s), [](const Values& values) -> Status {
    auto list = base::NetworkList::parse(values);
    return list ? Status() : list.error();
  });
}

Status check_hosts(const Values& values) {
  for (const auto& v : values)
    if (v.empty() || v.find_first_of("/ @?#") != v.npos)
      return invalid("expected names like a.example or a.example:8443, got '" + v + "'");
  return {};
}

// The row, whose values are addresses to listen at.
Setting addresses(Setting s) {
  return checked(std::move(s), [](const Values& values) -> Status {
    for (const auto& v : values)
      if (auto status = net::check_address(v); !status.ok()) return status;
    return {};
  });
}

Status check_node_address(const Values& values) {
  for (const auto& v : values)
    if (auto status = net::check_address(v); !v.empty() && !status.ok()) return status;
  return {};
}

Status check_server_name(const Values& values) {
  for (const auto& v : values)
    if (v.empty() || v.size() > 256 || base::presentable(v, v.size()) != v)
      return invalid("expected 1 to 256 bytes of printable text");
  return {};
}

// An origin as browsers send it (RFC 6454, §6.2): in lower case, and without the scheme's usual port.
base::Result<std::string> read_origin(const std::string& text) {
  if (text == "*" || text == "null") return text;
  const auto wrong = invalid("expected * or an origin like https://a.example:8443, got '" + text + "'");
  std::string out = text;
  std::transform(out.begin(), out.end(), out.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
  const size_t scheme = out.find("://"), host = scheme + 3;
  if (scheme == out.npos || scheme == 0 || host == out.size()) return wrong;
  const bool visible = std::all_of(out.begin(), out.end(), [](char c) { return c > ' ' && c < 0x7f; });
  if (!visible || out.find_first_of("/?#@*\\", host) != out.npos) return wrong;
  const size_t colon = out.rfind(':');
  if (colon < host || out.find(']', colon) != out.npos) return out;
  auto port = base::parse_count(out.substr(colon + 1), UINT16_MAX);
  if (!port || *port == 0 || colon == host) return wrong;
  const std::string_view before = std::string_view(out).substr(0, scheme);
  const bool usual = (before == "http" && *port == 80) || (before == "https" && *port == 443);
  return out.substr(0, colon) + (usual ? "" : ":" + std::to_string(*port));
}

Setting origins(Setting s) {
  s.set = [store = s.set](const Values& values) -> Status {
    Values read;
    for (const auto& v : values) {
      auto origin = read_origin(v);
      if (!origin) return origin.error();
      read.push_back(std::move(*origin));
    }
    return store(read);
  };
  return s;
}

// The row, whose value is a file or one of the words in its help.
Setting where(Setting s) {
  s.unit = "WHERE";
  return checked(std::move(s), [](const Values& values) -> Status {
    for (const auto& v : values)
      if (v != "off" && is_switch(v)) return invalid("expected off, - or a file, got '" + v + "'");
    return {};
  });
}

Status check_quantiles(const Values& values) {
  for (const auto& v : values) {
    char* end = nullptr;
    const double share = std::strtod(v.c_str(), &end);
    if (v.empty() || !std::isdigit(static_cast<unsigned char>(v[0])) || *end != 0 || !(share >= 0 && share <= 1))
      return invalid("expected numbers from 0 to 1, such as 0.99, got '" + v + "'");
    // Two rows of the same name and labels, and nobody can read the page.
    if (std::count(values.begin(), values.end(), v) > 1) return invalid("'" + v + "' is there more than once");
  }
  return {};
}

Status check_compat(const Values& values) {
  for (const auto& v : values)
    if (v != "triton" && v != "vllm" && v != "llamacpp")
      return invalid("expected triton, vllm or llamacpp, got '" + v + "'");
  return {};
}

void add_http(std::vector<Setting>& rows, Config& c) {
  using Field = wire::TrustedProxies::Field;
  rows.push_back(networks(list("http.trusted_proxies", "NETWORK",
                               "proxies that name their clients, not limited themselves: 10.0.0.0/8, unix; repeatable",
                               c.trusted_proxies)));
  rows.push_back(choice<Field>("http.client_field", "the field in which they do: x-forwarded-for, forwarded",
                               c.client_field,
                               {{"x-forwarded-for", Field::kXForwardedFor}, {"forwarded", Field::kForwarded}}));
  rows.push_back(
      networks(list("http.proxy_protocol", "NETWORK",
                    "peers that begin each connection with a PROXY header (v1, v2); repeatable", c.proxy_protocol)));
  rows.push_back(in_help(
      checked(list("http.hosts", "HOST",
                   "names that browsers may ask for beside loopback ones: a.example, *.b.example:8443, *; repeatable",
                   c.http_hosts),
              check_hosts)));
}

}  // namespace

void add_server(std::vector<Setting>& rows, Config& c) {
  rows.push_back(in_help(addresses(list(
      "listen", "ADDR", "address to listen on: HOST:PORT, unix:PATH or unix:PATH?mode=0660; repeatable", c.listen))));
  rows.push_back(in_help(addresses(
      list("admin.listen", "ADDR", "serve admin methods (load, unload, settings) here and nowhere else; repeatable",
           c.admin_listen))));
  rows.push_back(
      checked(text("server.name", "NAME",
                   "what server metadata calls this server: triton for clients that ask for that name", c.server_name),
              check_server_name));
  rows.push_back(in_help(count("shards", "threads that serve connections; 0 = one per core", c.shards, 0, 256)));
  rows.push_back(flag("pin", "keep each shard on one core", c.pin));
  rows.push_back(duration("spin", "how long a shard looks for work before it sleeps: latency for a core", c.spin));
  rows.push_back(
      named(path("tls.certificate", "PEM file with the certificate chain", c.tls.certificate), "--tls-cert"));
  rows.push_back(in_help(path("tls.key", "PEM file with its key", c.tls.key)));
  rows.push_back(in_help(
      path("tls.client_ca", "clients must show a certificate signed by this; cleartext is refused", c.tls.client_ca)));
  rows.push_back(in_help(flag("tls.required", "refuse cleartext over TCP", c.tls.required)));
  add_http(rows, c);
}

void add_cluster(std::vector<Setting>& rows, Config& c) {
  rows.push_back(secret(text("cluster.nats", "URL",
                             "nats://HOST:PORT: nodes with the same one find each other and serve each other's models",
                             c.cluster.nats)));
  rows.push_back(text("cluster.name", "NAME", "this node's; empty = one is drawn", c.cluster.name));
  rows.push_back(
      text("cluster.address", "URL", "where other nodes reach this one; empty = where it listens", c.cluster.address));
  rows.push_back(path("cluster.secret",
                      "a file whose first line all nodes share: entries and calls of others are refused",
                      c.cluster.secret));
  rows.push_back(
      checked(text("cluster.listen", "ADDR", "HOST:PORT for other nodes alone, with cluster.tls", c.cluster.listen),
              check_node_address));
  rows.push_back(path("cluster.tls.certificate", "PEM file with this node's certificate", c.cluster.tls.certificate));
  rows.push_back(path("cluster.tls.key", "PEM file with its key", c.cluster.tls.key));
  rows.push_back(
      path("cluster.tls.ca", "PEM file: nodes must show each other a certificate signed by this", c.cluster.tls.ca));
  rows.push_back(text("cluster.bucket", "NAME", "of the key-value bucket in JetStream", c.cluster.bucket));
  rows.push_back(size("cluster.session_bytes",
                      "of all sessions that JetStream keeps, in files; and of all stored responses",
                      c.cluster.session_bytes, 1 << 20, uint64_t(1) << 44));
  rows.push_back(duration("cluster.alone",
                          "how long kept sessions go on while no known node reaches NATS; the same on all nodes",
                          c.cluster.alone));
}

namespace {

void add_head_limits(std::vector<Setting>& rows, Config& c) {
  constexpr uint64_t kK = 1 << 10, kMost = 16 << 20;
  rows.push_back(size("limits.header_bytes", "request head (431 above)", c.limits.header_bytes, kK, kMost));
  rows.push_back(size("limits.header_bytes_hard", "request head (connection closed above)", c.limits.header_bytes_hard,
                      kK, kMost));
  rows.push_back(count("limits.header_fields", "header fields (431 above)", c.limits.header_fields, 1, 100000));
  rows.push_back(count("limits.header_fields_hard", "header fields (connection closed above)",
                       c.limits.header_fields_hard, 1, 100000));
}

}  // namespace

void add_limits(std::vector<Setting>& rows, Config& c) {
  constexpr uint64_t kK = 1 << 10, kM = 1 << 20, kG = 1 << 30;
  rows.push_back(
      named(size("limits.body", "largest HTTP body, also after inflating", c.limits.body, kK, 64 * kG), "--max-body"));
  rows.push_back(
      named(size("limits.message", "largest gRPC message, also after inflating", c.limits.message, kK, 2 * kG),
            "--max-message"));
  rows.push_back(count("limits.inflate_ratio", "inflated : coded", c.limits.inflate_ratio, 1));
  add_head_limits(rows, c);
  rows.push_back(count("limits.streams", "HTTP/2 streams of one connection", c.limits.streams, 1, 100000));
  rows.push_back(count("limits.resets",
                       "unanswered HTTP/2 requests that one connection may reset per second, 10 times as many at once; "
                       "a trusted proxy's 10 times as many",
                       c.limits.resets, 1, 100000));
  rows.push_back(count("limits.pipelined", "HTTP/1 requests waiting on one connection", c.limits.pipelined, 1, 10000));
  rows.push_back(count("limits.connections", "of the whole server", c.connections, 1));
  rows.push_back(count("limits.in_flight", "calls at once, per shard", c.in_flight, 1));
  rows.push_back(
      count("limits.conn_calls", "unanswered requests of all gRPC streams of one connection", c.conn_calls, 1));
  rows.push_back(
      named(size("limits.slab_budget", "memory for all that clients cause", c.slab_budget, 16 * kM, kG * kK * kK),
            "--slab-budget"));
  rows.push_back(
      size("limits.stream_window", "HTTP/2 receive window of a stream", c.limits.stream_window, 64 * kK, kG));
  rows.push_back(size("limits.conn_window", "and of a connection", c.limits.conn_window, 64 * kK, kG));
  rows.push_back(duration("limits.sniff_timeout", "until the first bytes have decided", c.limits.sniff));
  rows.push_back(duration("limits.head_timeout", "until a request head is complete", c.limits.head));
  rows.push_back(duration("limits.idle_timeout", "of a connection without requests", c.limits.idle));
  rows.push_back(duration("limits.stream_idle_timeout", "of a request without progress", c.limits.stream_idle));
  rows.push_back(
      size("limits.min_body_rate", "bytes per second that a sender must keep up", c.limits.min_body_rate, 0, kG));
  rows.push_back(size("limits.min_drain_rate", "and a receiver", c.limits.min_drain_rate, 0, kG));
  rows.push_back(duration("limits.memory_wait", "longest wait for memory; then 503", c.limits.memory_wait));
  rows.push_back(count("limits.client_share",
                       "per cent of connections, memory, sessions and calls that one client may hold once more than "
                       "half of them are in use; 100 = all",
                       c.limits.client_share, 1, 100));
}

void add_overload(std::vector<Setting>& rows, Config& c) {
  constexpr uint64_t kNever = 101;
  rows.push_back(count("overload.shrink", "% of limits.slab_budget at which receive windows shrink; 101 = never",
                       c.overload.shrink, 1, kNever));
  rows.push_back(count("overload.close", "at which connections end with their answers", c.overload.close, 1, kNever));
  rows.push_back(count("overload.refuse", "at which work is refused (503) and the server is not ready",
                       c.overload.refuse, 1, kNever));
  rows.push_back(count("overload.stop", "at which hardly any connection is accepted", c.overload.stop, 1, kNever));
}

namespace {

void add_dialects(std::vector<Setting>& rows, Config& c) {
  for (auto& served : c.dialects) {
    const auto& dialect = *served.dialect;
    if (dialect.switched() == dialects::Dialect::Switch::kSetting)
      rows.push_back(
          flag("protocols." + std::string(dialect.name()), "serve " + std::string(dialect.title()), served.on));
  }
  using msg::Anonymous;
  rows.push_back(choice<Anonymous>(
      "sessions.anonymous", "per_address, shared: who shares sessions and cached prefixes, of clients without a secret",
      c.anonymous, {{"per_address", Anonymous::kPerAddress}, {"shared", Anonymous::kShared}}));
  for (auto& served : c.dialects) served.dialect->add_settings(rows);
}

void add_console(std::vector<Setting>& rows, Config& c) {
  rows.push_back(
      in_help(flag("console.enabled", "serve the console, the page of GET / in a browser", c.console.enabled)));
  Setting page = text("console.path", "PATH", "where the console's page is, beside /; its API stays at /console/v1",
                      c.console.path);
  rows.push_back(wire::beside_own_paths(path_prefix(std::move(page), "/console"), {"/console"}));
  rows.push_back(count("console.timelines",
                       "requests whose times weir trace can show: per shard so many ordinary ones, and as many that "
                       "failed or were slow; 0 = off",
                       c.recent.kept, 0, 4096));
  rows.push_back(size("console.bodies",
                      "bytes of each body that are kept with a request of console.timelines, for who has the role "
                      "admin; bodies may hold secrets; 0 = none",
                      c.recent.bodies, 0, 64 << 10));
  rows.push_back(duration("console.slow", "a request is slow for weir trace that took as long", c.recent.slow));
}

}  // namespace

bool is_switch(std::string_view text) {
  for (std::string_view word : {"off", "on", "yes", "no", "true", "false", "none", "stdout", "stderr"})
    if (wire::same_text(text, word)) return true;
  return false;
}

void add_metrics(std::vector<Setting>& rows, Config& c) {
  rows.push_back(in_help(checked(
      list("metrics.compat", "NAME", "metric names of others as well: triton, vllm, llamacpp", c.metrics_compat),
      check_compat)));
  rows.push_back(
      flag("metrics.summaries",
           "with compat: [triton] quantiles of what the calls of the last minute took, for each model that is "
           "not one of text: nv_inference_request_summary_us and its like. 130 KiB for each version of a model",
           c.metrics_summaries));
  rows.push_back(
      checked(list("metrics.quantiles", "SHARE", "which quantiles those are", c.metrics_quantiles), check_quantiles));
}

void add_operations(std::vector<Setting>& rows, Config& c) {
  using base::log::Format;
  using base::log::Level;
  rows.push_back(
      named(origins(list("cors.origins", "ORIGIN", "web pages that may call, * = all; repeatable", c.cors_origins)),
            "--cors-origin"));
  add_metrics(rows, c);
  rows.push_back(in_help(choice<Level>("log.level", "verbose, info, warning, error, off", c.log_level,
                                       {{"verbose", Level::kVerbose},
                                        {"info", Level::kInfo},
                                        {"warning", Level::kWarning},
                                        {"error", Level::kError},
                                        {"off", Level::kOff}})));
  rows.push_back(in_help(
      choice<Format>("log.format", "text or json", c.log_format, {{"text", Format::kText}, {"json", Format::kJson}})));
  Setting audit =
      path("audit_log", "off, - (standard output) or a file; one JSON line per admin request; empty: the server's log",
           c.audit_log);
  rows.push_back(where(std::move(audit)));
  Setting access = path("access_log", "off, - (standard output) or a file; one JSON line per request", c.access_log);
  rows.push_back(in_help(where(std::move(access))));
  add_console(rows, c);
  rows.push_back(
      named(duration("shutdown.drain_delay", "still serving, but not ready", c.drain_delay), "--drain-delay"));
  rows.push_back(
      named(duration("shutdown.drain_timeout", "longest wait for open requests", c.drain_timeout), "--drain-timeout"));
}

std::vector<Setting> settings(Config& config) {
  std::vector<Setting> rows;
  add_server(rows, config);
  add_auth(rows, config);
  add_cluster(rows, config);
  add_models(rows, config);
  add_limits(rows, config);
  add_jobs(rows, config);
  add_overload(rows, config);
  add_dialects(rows, config);
  add_operations(rows, config);
  add_tracing(rows, config);
  // Sections stand together, in the order of their first rows.
  auto section = [](const Setting& row) { return row.key.substr(0, row.key.find('.')); };
  std::map<std::string, size_t> order;
  for (const auto& row : rows) order.emplace(section(row), order.size());
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const Setting& a, const Setting& b) { return order[section(a)] < order[section(b)]; });
  return rows;
}

}  // namespace weir::app
