// QueueLimit: how many Calls may wait for a model of tokens: as many as begin within a time. Pure: durations are
// arguments.
//
// A Call that came behind n others and began after a time t says that a place in the queue takes t / n; the last 32
// such Calls are counted together. Before there is one, and where there is no time limit, only the number counts. A
// queue is never shorter than a step has sequences.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/env.h"
#include "generation/policy.h"

namespace weir::generation {

class QueueLimit {
 public:
  // `policy` outlives this.
  explicit QueueLimit(const TokenPolicy& policy) : policy_(policy) {}

  // A Call began that had `places` others before it when it came.
  void began(size_t places, base::Duration waited);
  size_t calls() const;

 private:
  struct Wait {
    size_t places = 0;
    base::Duration waited{};
  };

  const TokenPolicy& policy_;
  std::array<Wait, 32> waits_{};
  size_t count_ = 0;
  Wait sum_;  // of waits_
};

}  // namespace weir::generation
