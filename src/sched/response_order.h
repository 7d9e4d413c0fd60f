// ResponseOrder: posts answers in the order in which batches were taken from the queue, whichever engine is done first
// (Triton's preserve_ordering). The answers of a batch are held until all earlier batches have given theirs, so a slow
// batch delays the fast ones behind it.
//
// Calls of one tenant leave the queue in the order in which they came, so each connection gets its answers in the
// order of its requests. A call that is refused before it is in a batch is answered at once.
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

  // Returns the number of a batch that is being taken from the queue. One thread at a time.
  uint64_t begin() { return begun_++; }
  // Posts answers of a batch now or when it is its turn. Empties `mails`, but leaves the homes in it. Any thread; not
  // with a lock that a Home takes.
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
  bool sending_ = false;   // a thread is sending: it also sends what others add meanwhile
};

}  // namespace weir::sched
