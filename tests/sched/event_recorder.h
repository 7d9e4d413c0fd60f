// A home that any thread may read: what has come back for each Call, in words.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "calls.h"

namespace weir::sched {

// The code of a failure, or the first value of the first output and its rows: "42x3".
inline std::string value_of(const msg::Mail& mail) {
  if (auto text = text_of(mail.event); text != "ok") return text;
  auto& y = std::get<msg::Outputs>(mail.event.what).tensors.at(0);
  return std::to_string(int(floats_of(y).at(0))) + "x" + std::to_string(y.shape[0]);
}

class EventRecorder final : public msg::Home {
 public:
  using Words = std::string (*)(const msg::Mail&);
  explicit EventRecorder(Words words = value_of) : words_(words) {}

  void post(std::vector<msg::Mail>& burst) override {
    std::lock_guard lock(mutex_);
    ++bursts_;
    for (auto& m : burst) take(m);
    burst.clear();
  }
  void post_here(msg::Mail&& m) override {
    std::lock_guard lock(mutex_);
    take(m);
  }

  // Waits for the last Events of so many Calls.
  void until(size_t calls) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_ >= calls; });
  }
  // Waits for the last Event of one Call: all that came for it.
  std::vector<std::string> until_last(const msg::Call& call) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return heard_[&call].over; });
    return heard_[&call].said;
  }
  void until_said(const msg::Call& call, size_t events) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return heard_[&call].said.size() >= events; });
  }

  // The last Event for this Call; "nothing" before there is one.
  std::string of(const msg::Call& call) {
    std::lock_guard lock(mutex_);
    auto found = heard_.find(&call);
    return found == heard_.end() || found->second.said.empty() ? "nothing" : found->second.said.back();
  }
  // How many Events have come for it.
  size_t said(const msg::Call& call) {
    std::lock_guard lock(mutex_);
    return heard_[&call].said.size();
  }
  // The last words of the Calls that have ended, and of how many each.
  std::map<std::string, int> all() {
    std::lock_guard lock(mutex_);
    std::map<std::string, int> out;
    for (auto& [call, heard] : heard_)
      if (heard.over) ++out[heard.said.back()];
    return out;
  }
  size_t ended() {
    std::lock_guard lock(mutex_);
    return ended_;
  }
  int bursts() {
    std::lock_guard lock(mutex_);
    return bursts_;
  }

 private:
  struct Heard {
    std::vector<std::string> said;
    bool over = false;
  };
  void take(const msg::Mail& mail) {
    auto& heard = heard_[mail.call];
    EXPECT_FALSE(heard.over) << "an event after the last one";
    heard.said.push_back(words_(mail));
    if (mail.event.last() && !std::exchange(heard.over, true)) ++ended_;
    changed_.notify_all();
  }

  const Words words_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<const msg::Call*, Heard> heard_;
  size_t ended_ = 0;
  int bursts_ = 0;
};

// The times of a Call that has been answered.
inline void expect_ascending(const msg::Timeline& times) {
  EXPECT_LE(times.queued, times.started);
  EXPECT_LE(times.started, times.computing);
  EXPECT_LE(times.computing, times.computed);
  EXPECT_LE(times.computed, times.finished);
}

}  // namespace weir::sched
