// TurnBudget: the work on nodes that all sessions of one shard may do in one turn of its loop. A session that finds it
// spent stops, waits, and goes on in a later turn, so that no message holds up the shard's other connections.
//
// The unit is a step, which takes about a microsecond at most: a fragment visited, an edge followed, kBytesPerStep of
// data passed on. A node that is made is several. Used on the shard's thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>

#include "base/env.h"

namespace weir::evergreen {

inline constexpr uint64_t kBytesPerStep = 1024, kEdgesPerStep = 32;

class TurnBudget {
 public:
  class Waiter {
   public:
    // The turn that it has waited for. It waits no more then.
    virtual void on_turn() = 0;

   protected:
    ~Waiter() = default;

   private:
    friend class TurnBudget;
    bool waits_ = false;
    std::list<Waiter*>::iterator place_{};
  };

  TurnBudget(base::Env& env, uint64_t steps_per_turn) : env_(env), per_turn_(steps_per_turn), left_(steps_per_turn) {}
  ~TurnBudget() { env_.cancel(timer_); }
  TurnBudget(const TurnBudget&) = delete;

  void spend(uint64_t steps) {
    left_ -= std::min(left_, steps);
    total_ += steps;
  }
  bool spent() const { return left_ == 0; }
  uint64_t total() const { return total_; }  // steps of all turns

  // on_turn() is called once, in a later turn; waiters are served in their order.
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

}  // namespace weir::evergreen
