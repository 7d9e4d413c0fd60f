#include "models/restart_backoff.h"

#include <algorithm>

namespace weir::models {

void RestartBackoff::broke(const std::string& model, Clock::time_point now) {
  auto& revival = models_[model];
  if (now - revival.broke > kForgiven) revival.wait = Clock::duration(0);
  revival.broke = now;
  revival.at = std::min(revival.at, now + revival.wait);
}

void RestartBackoff::failed(const std::string& model, Clock::time_point now) {
  auto& revival = models_[model];
  revival.at = now + revival.wait;
}

RestartBackoff::Clock::time_point RestartBackoff::next() const {
  auto first = Clock::time_point::max();
  for (const auto& [name, revival] : models_) first = std::min(first, revival.at);
  return first;
}

std::vector<std::string> RestartBackoff::due(Clock::time_point now) {
  std::vector<std::string> names;
  for (auto& [name, revival] : models_) {
    if (revival.at > now) continue;
    revival.at = Clock::time_point::max();
    revival.wait = std::clamp<Clock::duration>(revival.wait * 2, kFirstWait, kLongestWait);
    names.push_back(name);
  }
  return names;
}

}  // namespace weir::models
