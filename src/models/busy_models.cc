#include "models/busy_models.h"

#include <algorithm>

namespace weir::models {

bool BusyModels::begin_wait(const std::string& waiter, const std::string& model) {
  std::set<std::string> seen;
  if (waits_for(model, waiter, seen)) return false;
  waits_.emplace(waiter, model);
  return true;
}

void BusyModels::end_wait(const std::string& waiter, const std::string& model) {
  auto [from, to] = waits_.equal_range(waiter);
  auto at = std::find_if(from, to, [&](const auto& wait) { return wait.second == model; });
  if (at != to) waits_.erase(at);
}

bool BusyModels::waits_for(const std::string& from, const std::string& to, std::set<std::string>& seen) const {
  if (from == to) return true;
  if (!seen.insert(from).second) return false;
  auto [begin, end] = waits_.equal_range(from);
  return std::any_of(begin, end, [&](const auto& wait) { return waits_for(wait.second, to, seen); });
}

}  // namespace weir::models
