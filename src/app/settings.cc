#include "app/settings.h"

#include <algorithm>

#include "app/setting_rows.h"
#include "base/network.h"

namespace weir::app {
namespace {

Setting networks(Setting s) {
  s.set = [store = s.set](Config& config, const Values& values) -> Status {
    if (auto list = base::NetworkList::parse(values); !list) return list.error();
    return store(config, values);
  };
  return s;
}

void add_http(std::vector<Setting>& rows) {
  using Field = wire::TrustedProxies::Field;
  rows.push_back(networks(list("http.trusted_proxies", "NETWORK",
                               "proxies that name their clients, not limited themselves: 10.0.0.0/8, unix; repeatable",
                               AT(trusted_proxies))));
  rows.push_back(choice<>("http.client_field", "the field in which they do: x-forwarded-for, forwarded",
                          AT(client_field),
                          std::vector<std::pair<std::string, Field>>{{"x-forwarded-for", Field::kXForwardedFor},
                                                                     {"forwarded", Field::kForwarded}}));
  rows.push_back(
      networks(list("http.proxy_protocol", "NETWORK",
                    "peers that begin each connection with a PROXY header (v1, v2); repeatable", AT(proxy_protocol))));
  Setting hosts =
      list("http.hosts", "HOST",
           "names that browsers may ask for beside loopback ones: a.example, *.b.example:8443, *; repeatable",
           AT(http_hosts));
  hosts.set = [store = hosts.set](Config& config, const Values& values) -> Status {
    for (const auto& v : values)
      if (v.empty() || v.find_first_of("/ @?#") != v.npos)
        return invalid("expected names like a.example or a.example:8443, got '" + v + "'");
    return store(config, values);
  };
  rows.push_back(in_help(std::move(hosts)));
}

}  // namespace

void add_server(std::vector<Setting>& rows) {
  rows.push_back(
      in_help(list("listen", "ADDR", "address to listen on: HOST:PORT or unix:PATH; repeatable", AT(listen))));
  rows.push_back(in_help(list("admin.listen", "ADDR",
                              "serve admin methods (load, unload, settings) here and nowhere else; repeatable",
                              AT(admin_listen))));
  rows.push_back(in_help(count("shards", "threads that serve connections; 0 = one per core", AT(shards), 0, 256)));
  rows.push_back(flag("pin", "keep each shard on one core", AT(pin)));
  rows.push_back(duration("spin", "how long a shard looks for work before it sleeps: latency for a core", AT(spin)));
  rows.push_back(
      named(path("tls.certificate", "PEM file with the certificate chain", AT(tls.certificate)), "--tls-cert"));
  rows.push_back(in_help(path("tls.key", "PEM file with its key", AT(tls.key))));
  rows.push_back(in_help(path("tls.client_ca", "clients must show a certificate signed by this; cleartext is refused",
                              AT(tls.client_ca))));
  rows.push_back(in_help(flag("tls.required", "refuse cleartext over TCP", AT(tls.required))));
  add_http(rows);
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
  rows.push_back(
      named(size("limits.slab_budget", "memory for all that clients cause", AT(slab_budget), 16 * kM, kG * kK * kK),
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
  rows.push_back(duration("limits.memory_wait", "longest wait for memory; then 503", AT(limits.memory_wait)));
  rows.push_back(count("limits.client_share",
                       "per cent of connections, memory, sessions and calls that one client may hold once more than "
                       "half of them are in use; 100 = all",
                       AT(limits.client_share), 1, 100));
}

void add_overload(std::vector<Setting>& rows) {
  constexpr uint64_t kNever = 101;
  rows.push_back(count("overload.shrink", "% of limits.slab_budget at which receive windows shrink; 101 = never",
                       AT(overload.shrink), 1, kNever));
  rows.push_back(count("overload.close", "at which connections end with their answers", AT(overload.close), 1, kNever));
  rows.push_back(count("overload.refuse", "at which work is refused (503) and the server is not ready",
                       AT(overload.refuse), 1, kNever));
  rows.push_back(count("overload.stop", "at which hardly any connection is accepted", AT(overload.stop), 1, kNever));
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
    add_server(all);
    add_models(all);
    add_limits(all);
    add_overload(all);
    add_protocols(all);
    add_operations(all);
    return all;
  }();
  return rows;
}

}  // namespace weir::app
