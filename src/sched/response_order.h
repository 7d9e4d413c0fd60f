// ResponseOrder: answers leave in the order in which the queue gave their calls out, whichever engine is done first:
// Triton's preserve_ordering. The answers of a batch are held until all batches before it have given theirs, so a
// slow batch holds up the fast ones behind it.
//
// Calls of one tenant leave the queue in the order in which they came, so each connection gets its answers in the
// order of its requests. Calls that are refused in the queue are answered at once.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>

#include "bus/mail_bursts.h"
#include "msg/call.h"

namespace weir::sched {

class ResponseOrder {
 public:
  using Mails = bus::MailBursts::Bursts;

  // A batch is taken from the queue; its number. One thread at a time.
  uint64_t begin() { return begun_++; }
  // Answers of a batch; leaves `mails` without any, but with its homes. Any thread, without a lock that a Home
  // takes.
  void post(uint64_t batch, Mails& mails);
  // The batch has given all of its answers.
  void end(uint64_t batch);

 private:
  struct Held {
    Mails mails;
    bool over = false;
  };
  Held& of(uint64_t batch);
  void send(std::unique_lock<std::mutex>& lock);

  uint64_t begun_ = 0;
  std::mutex mutex_;  // over all that follows
  uint64_t first_ = 0;
  std::deque<Held> held_;  // of batches first_, first_ + 1, …
  bool sending_ = false;   // some thread is: it sends also what comes meanwhile
};

}  // namespace weir::sched
