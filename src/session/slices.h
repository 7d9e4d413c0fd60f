// Slices: the work on nodes that all sessions of one shard do in one turn of its loop. Whoever finds the turn's steps
// spent stops, waits, and goes on in a later turn, so that no message holds up the shard's other connections, whatever
// it asks for.
//
// A step is about a microsecond at most: a fragment visited, an edge followed, 1 KiB of data passed on. On the shard.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>

#include "base/env.h"

namespace weir::session {

class Slices {
 public:
  // Where a Waiter goes on; it waits no more then.
  class Waiter {
   public:
    virtual void on_slice() = 0;

   protected:
    ~Waiter() = default;

   private:
    friend class Slices;
    bool waits_ = false;
    std::list<Waiter*>::iterator place_{};
  };

  Slices(base::Env& env, uint64_t steps_per_turn) : env_(env), per_turn_(steps_per_turn), left_(steps_per_turn) {}
  ~Slices() { env_.cancel(timer_); }
  Slices(const Slices&) = delete;

  void spend(uint64_t steps) {
    left_ -= std::min(left_, steps);
    total_ += steps;
  }
  bool spent() const { return left_ == 0; }
  uint64_t total() const { return total_; }  // steps of all turns: how much work there was

  // on_slice() is called once, in a later turn; those who wait are served in their order.
  void wait(Waiter& waiter);
  void forget(Waiter& waiter);

 private:
  void begin_turn();
  void arm();

  base::Env& env_;
  const uint64_t per_turn_;
  uint64_t left_, total_ = 0;
  std::list<Waiter*> waiting_;
  base::TimerId timer_ = base::TimerId::kNone;
};

}  // namespace weir::session
