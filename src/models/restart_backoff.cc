#include "models/restart_backoff.h"

#include <algorithm>

namespace weir::models {

void RestartBackoff::broke(const std::string& model, Clock::time_point now) {
  auto& restart = models_[model];
  if (now - restart.broke > kForgiven) restart.wait = Clock::duration(0);
  restart.broke = now;
  restart.at = std::min(restart.at, now + restart.wait);
}

void RestartBackoff::failed(const std::string& model, Clock::time_point now, Clock::duration longest) {
  auto& restart = models_[model];
  restart.wait = std::clamp<Clock::duration>(restart.wait, kFirstWait, longest);
  restart.at = now + restart.wait;
}

RestartBackoff::Clock::time_point RestartBackoff::next() const {
  auto first = Clock::time_point::max();
  for (const auto& [name, restart] : models_) first = std::min(first, restart.at);
  return first;
}

std::vector<std::string> RestartBackoff::due(Clock::time_point now) {
  std::vector<std::string> names;
  for (auto& [name, restart] : models_) {
    if (restart.at > now) continue;
    restart.at = Clock::time_point::max();
    restart.wait = std::clamp<Clock::duration>(restart.wait * 2, kFirstWait, kLongestWait);
    names.push_back(name);
  }
  return names;
}

}  // namespace weir::models
