// `weir routes`: every route that a configuration serves, from the tables by which requests are routed.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "app/banner.h"
#include "app/serve.h"
#include "app/shard_server.h"

namespace weir::app {
namespace {

void print_json(const std::vector<const wire::Route*>& routes) {
  auto list = nlohmann::ordered_json::array();
  for (const auto* route : routes) {
    list.push_back({{"method", route->method},
                    {"path", route->pattern},
                    {"protocol", route->protocol},
                    {"permission", wire::name(route->permission)}});
    if (!route->content_type.empty()) list.back()["content_type"] = route->content_type;
  }
  std::printf("%s\n", list.dump(1).c_str());
}

void print_table(const std::vector<const wire::Route*>& routes) {
  std::printf("%-10s %-7s %-12s %s\n", "PERMISSION", "METHOD", "PROTOCOL", "PATH");
  for (const auto* route : routes)
    std::printf("%-10s %-7s %-12s %s\n", std::string(wire::name(route->permission)).c_str(), route->method.c_str(),
                std::string(route->protocol).c_str(), route->pattern.c_str());
}

}  // namespace

Exit list_routes(const Config& config, RouteList form) {
  ServerState state(config);
  net::Shard shard(base::ShardId(0), net::Pin::kNo);
  auto status = open_dialects(state, 1, [](base::ShardId, const std::function<void()>&) {});
  std::optional<ShardServer> server;
  if (status.ok()) status = server.emplace(shard, state, 1).mount_dialects();
  if (!status.ok()) {
    print_error("weir: " + status.text);
    return Exit::kUsage;
  }
  auto routes = server->routes();
  std::sort(routes.begin(), routes.end(), [](const auto* a, const auto* b) {
    return std::tie(a->pattern, a->method, a->content_type) < std::tie(b->pattern, b->method, b->content_type);
  });
  form == RouteList::kJson ? print_json(routes) : print_table(routes);
  return Exit::kOk;
}

}  // namespace weir::app
