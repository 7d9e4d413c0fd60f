// Mailbox: lanes post mail to it, one shard drains it. The shard is woken once each time that an empty box gets mail.
//
// It may be destroyed, on its shard or after it, once every Call has come back: its destructor waits for lanes that are
// still inside wake(). What wake() uses must live until then.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "msg/call.h"

namespace weir::bus {

class Mailbox final : public msg::Home {
 public:
  // `wake` is called from the posting thread when the box was empty; it makes the shard call Bus::turn().
  explicit Mailbox(std::function<void()> wake) : wake_(std::move(wake)) {}

  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  void post(std::vector<msg::Mail>& burst) override;
  void post_here(msg::Mail&& mail) override { here_.push_back(std::move(mail)); }

  // Home shard: all mail so far into `out` (emptied first), each poster's in the order in which it posted. False when
  // there was none.
  bool drain(std::vector<msg::Mail>& out);

  // Home shard: both ask for another turn, wake_again() only if mail waits.
  void wake() { wake_(); }
  void wake_again();

 private:
  std::function<void()> wake_;
  std::atomic<int> waking_{0};       // posters inside wake_(); raised under mutex_
  std::atomic<bool> filled_{false};  // queue_ may have mail: an empty one is not locked. Written under mutex_
  std::mutex mutex_;
  std::vector<msg::Mail> queue_;  // under mutex_
  std::vector<msg::Mail> here_;   // home shard only
};

}  // namespace weir::bus
