#include "app/server_options.h"

#include <algorithm>
#include <string>
#include <thread>

namespace weir::app {

uint32_t shards_of(const Config& config) {
  return config.shards ? config.shards : std::max(1u, std::thread::hardware_concurrency());
}

uint32_t pinned_shards(const Config& config) {
  uint32_t count = shards_of(config);
  return config.pin && count > 1 ? count : 0;
}

net::ServerOptions server_options(const Config& config) {
  net::ServerOptions options;
  using wire::AdminMethods;
  auto beside = config.admin_listen.empty() ? AdminMethods::kServed : AdminMethods::kElsewhere;
  for (const auto& address : config.listen) options.listen.push_back({address, beside});
  for (const auto& address : config.admin_listen) options.listen.push_back({address, AdminMethods::kServed});
  options.tls = config.tls;
  const auto& cluster = config.cluster;
  if (!cluster.listen.empty()) {
    options.listen.push_back({cluster.listen, AdminMethods::kElsewhere, net::ListensFor::kNodes});
    options.node_tls = {cluster.tls.certificate, cluster.tls.key, cluster.tls.ca, true};
  }
  options.max_connections = config.connections;
  options.share.percent = config.limits.client_share;
  options.proxy_protocol = base::NetworkList::parse(config.proxy_protocol).value();
  options.drain_delay = config.drain_delay;
  options.drain_timeout = config.drain_timeout;
  return options;
}

std::vector<std::string> certificate_files(const Config& config) {
  const auto& nodes = config.cluster.tls;
  return {config.tls.certificate, config.tls.key, config.tls.client_ca, nodes.certificate, nodes.key, nodes.ca};
}

}  // namespace weir::app
