#include "dialects/grps/routes.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/units.h"

namespace weir::grps {
namespace {

using base::Complaints;
using base::Yaml;

bool scalar(const Yaml& node, Complaints& complaints, std::string& out) {
  if (node.kind == Yaml::Kind::kScalar) return out = node.scalar, true;
  if (node.kind != Yaml::Kind::kNull) complaints.at(node, "expected one value");
  return false;
}

void pairs(const Yaml& node, Complaints& complaints, RouteSpec::Pairs& out) {
  if (node.kind == Yaml::Kind::kNull) return;
  if (node.kind != Yaml::Kind::kMap) return complaints.at(node, "expected a map of keys and values");
  for (const auto& entry : node.entries) {
    std::string value;
    if (scalar(entry.value, complaints, value)) out.emplace_back(entry.key, std::move(value));
  }
}

void http_status(std::string_view key, const Yaml& node, Complaints& complaints, uint32_t& out) {
  std::string text;
  if (!scalar(node, complaints, text)) return;
  auto status = base::parse_count(text, 599);
  if (!status) complaints.at(node, std::string(key) + ": " + status.error().text);
  if (status) out = uint32_t(*status);
}

void read_route(const Yaml& node, Complaints& complaints, RouteSpec& route) {
  if (node.kind != Yaml::Kind::kMap) return complaints.at(node, "expected a map of keys and values");
  const std::vector<std::pair<std::string_view, std::string*>> texts{
      {"path", &route.path},
      {"method", &route.method},
      {"model", &route.model},
      {"raw_output", &route.raw_output},
      {"content_type", &route.content_type},
      {"streaming", &route.streaming},
      {"stream_content_type", &route.stream_content_type},
      {"error_body", &route.error_body},
      {"error_content_type", &route.error_content_type}};
  const std::vector<std::pair<std::string_view, uint32_t*>> numbers{{"status", &route.status},
                                                                    {"error_status", &route.error_status}};
  for (const auto& entry : node.entries) {
    bool known = false;
    for (auto [name, place] : {std::pair{"inputs", &route.inputs}, std::pair{"outputs", &route.outputs}})
      if (entry.key == name) known = true, pairs(entry.value, complaints, *place);
    for (const auto& [name, place] : texts)
      if (entry.key == name) known = true, scalar(entry.value, complaints, *place);
    for (const auto& [name, place] : numbers)
      if (entry.key == name) known = true, http_status(name, entry.value, complaints, *place);
    if (!known)
      complaints.unknown_key(entry, "grps.routes",
                             {"path", "method", "model", "inputs", "outputs", "raw_output", "status", "content_type",
                              "streaming", "stream_content_type", "error_status", "error_body", "error_content_type"});
  }
  if (std::string wrong = check(route); !wrong.empty()) complaints.at(node, wrong);
}

// Two paths of one shape match the same requests, whatever their places are called.
std::string shape_of(std::string_view path) {
  std::string shape;
  for (size_t at = 0; at < path.size(); ++at) {
    if (path[at] == '{') at = std::min(path.find('}', at), path.size() - 1);
    shape += path[at];
  }
  return shape;
}

}  // namespace

void read_routes(const Yaml& node, Complaints& complaints, std::vector<RouteSpec>& routes) {
  if (node.kind == Yaml::Kind::kNull) return;
  if (node.kind != Yaml::Kind::kList) return complaints.at(node, "grps.routes: expected a list of routes");
  routes.clear();
  std::set<std::string> taken;
  std::map<std::string, std::string> paths;  // the first of each shape
  for (const auto& item : node.items) {
    read_route(item, complaints, routes.emplace_back());
    const auto& route = routes.back();
    const std::string shape = shape_of(route.path);
    // The values of a path are found before the method's route is.
    const std::string& first = paths.try_emplace(shape, route.path).first->second;
    if (!taken.insert(route.method + ' ' + shape).second)
      complaints.at(item, "grps.routes: " + route.method + ' ' + route.path + " is there already");
    else if (first != route.path)
      complaints.at(item, "grps.routes: " + route.path + " names its places otherwise than " + first);
  }
}

base::Status check_free(const std::vector<RouteSpec>& routes, const wire::Router& router) {
  std::map<std::string, std::string_view> protocols;  // by method and shape
  for (const wire::Route* there : router.routes())
    protocols.emplace(there->method + ' ' + shape_of(there->pattern), there->protocol);
  for (const auto& route : routes)
    if (auto at = protocols.find(route.method + ' ' + shape_of(route.path)); at != protocols.end())
      return base::invalid("grps.routes: " + route.method + ' ' + route.path + " is served by " +
                           std::string(at->second) + ": expected another path");
  return {};
}

std::string show_routes(const std::vector<RouteSpec>& routes) {
  std::string out;
  auto line = [&](std::string_view key, std::string_view value) {
    if (!value.empty()) out += "      " + std::string(key) + ": " + base::yaml_scalar(std::string(value)) + '\n';
  };
  auto pairs = [&](std::string_view key, const RouteSpec::Pairs& pairs) {
    if (pairs.empty()) return;
    out += "      " + std::string(key) + ":\n";
    for (const auto& [name, value] : pairs)
      out += "        " + base::yaml_scalar(name) + ": " + base::yaml_scalar(value) + '\n';
  };
  for (const auto& route : routes) {
    out += (out.empty() ? "  routes:\n" : "") + std::string("    - path: ") + base::yaml_scalar(route.path) + '\n';
    line("method", route.method), line("model", route.model);
    pairs("inputs", route.inputs), pairs("outputs", route.outputs);
    line("raw_output", route.raw_output), line("status", std::to_string(route.status));
    line("content_type", route.content_type), line("streaming", route.streaming);
    line("stream_content_type", route.stream_content_type);
    if (route.error_status > 0) line("error_status", std::to_string(route.error_status));
    line("error_body", route.error_body), line("error_content_type", route.error_content_type);
  }
  return out;
}

}  // namespace weir::grps
