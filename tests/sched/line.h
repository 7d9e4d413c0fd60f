// A Batcher on a clock of its own, and Calls that are named by letters.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "calls.h"
#include "sched/batcher.h"
#include "sched/fit.h"
#include "sched/staging.h"

namespace weir::sched {

// Calls are named by letters; a batch is the word that they spell.
class Line {
 public:
  explicit Line(msg::ModelSpec s) : spec(std::move(s)), batcher(spec) {}

  msg::Call& put(std::string id, uint32_t rows = 1, int64_t width = 2) {
    auto& call = calls.emplace_back();
    call.id = std::move(id);
    fill(call, rows, 0, width);
    return queue(call);
  }
  msg::Call& put(std::string id, uint32_t priority, base::Duration deadline, base::Duration timeout = 0ms) {
    auto& call = calls.emplace_back();
    call.id = std::move(id), call.priority = priority, call.queue_timeout = timeout;
    if (deadline != 0ms) call.deadline = now + deadline;
    fill(call, 1);
    return queue(call);
  }
  msg::Call& queue(msg::Call& call) {
    status = batcher.add(&call, now, dropped);
    return call;
  }
  std::string next() {
    std::vector<msg::Call*> batch;
    batcher.next(now, batch, dropped);
    std::string word;
    for (auto* call : batch) word += call->id;
    return word;
  }
  std::string left() {
    std::string word;
    for (auto& [call, why] : dropped) word += call->id + ":" + std::string(base::name(why.code)) + " ";
    dropped.clear();
    return word;
  }

  msg::ModelSpec spec;
  Batcher batcher;
  base::Time now = base::Time(1h);
  std::deque<msg::Call> calls;
  std::vector<Dropped> dropped;
  base::Status status;
};

}  // namespace weir::sched
