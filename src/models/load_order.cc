#include "models/load_order.h"

namespace weir::models {

// In a ring of pipelines, which cannot be built, one does not wait for its node.
LoadOrder::LoadOrder(const std::set<std::string>& wanted,
                     const std::function<std::vector<std::string>(const std::string&)>& nodes) {
  std::set<std::string> seen, behind;
  std::function<void(const std::string&)> visit = [&](const std::string& name) {
    if (!seen.insert(name).second) return;
    const auto needed = nodes(name);
    for (const auto& node : std::set<std::string>(needed.begin(), needed.end())) {
      visit(node);
      if (!behind.contains(node)) continue;
      ++left_[name];
      followers_[node].push_back(name);
    }
    behind.insert(name);
    names_.push_back(name);
  };
  for (const auto& name : wanted) visit(name);
}

std::vector<std::string> LoadOrder::first() const {
  std::vector<std::string> out;
  for (const auto& name : names_)
    if (!left_.contains(name)) out.push_back(name);
  return out;
}

std::vector<std::string> LoadOrder::ended(const std::string& name) {
  std::vector<std::string> out;
  for (const auto& follower : followers_[name])
    if (--left_[follower] == 0) out.push_back(follower);
  return out;
}

}  // namespace weir::models
