// RestartBackoff: when models whose engine broke are loaded anew. At once; when that fails or they break again soon,
// ever later. Pure: time comes from the caller.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace weir::models {

class RestartBackoff {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr auto kFirstWait = std::chrono::seconds(1), kLongestWait = std::chrono::seconds(60);
  static constexpr auto kForgiven = std::chrono::minutes(5);  // without a break the next one is the first again

  void broke(const std::string& model, Clock::time_point now);
  // It did not load, and is tried again after the wait that is its turn, but no longer than `longest`.
  void failed(const std::string& model, Clock::time_point now, Clock::duration longest = kLongestWait);
  // When the first of them is to be loaded; max() = never.
  Clock::time_point next() const;
  // Those whose time has come. Each is named once, until it breaks or fails again.
  std::vector<std::string> due(Clock::time_point now);

 private:
  struct Restart {
    Clock::time_point broke{}, at = Clock::time_point::max();  // max: nothing to do
    Clock::duration wait{0};
  };
  std::map<std::string, Restart> models_;
};

}  // namespace weir::models
