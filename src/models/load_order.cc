#include "models/load_order.h"

namespace weir::models {

std::vector<std::string> nodes_first(const std::set<std::string>& wanted,
                                     const std::function<std::vector<std::string>(const std::string&)>& nodes) {
  std::vector<std::string> order;
  std::set<std::string> seen;
  std::function<void(const std::string&)> visit = [&](const std::string& name) {
    if (!seen.insert(name).second) return;
    for (const auto& node : nodes(name)) visit(node);
    order.push_back(name);
  };
  for (const auto& name : wanted) visit(name);
  return order;
}

}  // namespace weir::models
