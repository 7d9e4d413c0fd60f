// A home that any thread may post to, and wait at.
#pragma once

#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "msg/call.h"

namespace weir::support {

struct OpenHome final : msg::Home {
  void post(std::vector<msg::Mail>& burst) override {
    for (auto& m : burst) post_here(std::move(m));
    burst.clear();
  }
  void post_here(msg::Mail&& m) override {
    std::lock_guard lock(mutex);
    mail.push_back(std::move(m));
    changed.notify_all();
  }
  void until(size_t n) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return mail.size() >= n; });
  }
  // The last Event of the one Call that is on its way.
  msg::Event until_last() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return !mail.empty() && mail.back().event.last(); });
    return std::move(mail.back().event);
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<msg::Mail> mail;  // under mutex while somebody may post
};

}  // namespace weir::support
