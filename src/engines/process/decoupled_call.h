// DecoupledCall: a call inside a decoupled model's process, and its answers between the two threads that use it:
// the engine's (decoupled.cc), which receives them, and the Inbox's, which takes them from the series.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "base/status.h"
#include "engines/process/host.h"
#include "engines/process/nested.h"
#include "engines/process/waiting_answers.h"
#include "msg/call.h"
#include "sched/decoupled_engine.h"

namespace weir::process {

// All of it is under DecoupledCalls::mutex, but `call`, which does not change.
struct DecoupledCall {
  struct Answer {
    msg::Event event;
    WaitingAnswers::Charge charge{};
    uint32_t cost = 1;  // of the child's credit
  };
  uint64_t number = 0;
  msg::Call call;  // what the child is told of it
  uint64_t tenant = 0;
  std::deque<Answer> answers;
  base::Status error;                      // behind them, the last one
  uint32_t level = 1;                      // of priority
  uint32_t taken = 0;                      // answers since the child was last given credit
  uint32_t owed = 0;                       // and the credit for them
  WaitingAnswers::Charge with_the_peer{};  // of the last answer that was taken, until the peer has room
  bool begun = false, ended = false, abandoned = false;
};

// Calls that the child has, by number, and through how many servers the farthest of them has come.
class OpenCalls {
 public:
  // Nothing has changed if it throws.
  void add(const std::shared_ptr<DecoupledCall>& call) {
    const auto hops = hops_.insert(hops_of(call->call));
    try {
      calls_.emplace(call->number, Open{call, hops});
    } catch (...) {
      hops_.erase(hops);
      throw;
    }
  }
  // False: it is none of them.
  bool remove(uint64_t number) {
    const auto found = calls_.find(number);
    if (found == calls_.end()) return false;
    hops_.erase(found->second.hops);
    calls_.erase(found);
    return true;
  }
  std::shared_ptr<DecoupledCall> find(uint64_t number) const {  // or null
    const auto found = calls_.find(number);
    return found == calls_.end() ? nullptr : found->second.call;
  }
  size_t size() const { return calls_.size(); }
  uint32_t most_hops() const { return hops_.empty() ? 0 : *hops_.rbegin(); }
  template <class Work>
  void each(Work work) const {
    for (const auto& [number, open] : calls_) work(*open.call);
  }
  void clear() { calls_.clear(), hops_.clear(); }

 private:
  using Hops = std::multiset<uint32_t>;
  struct Open {
    std::shared_ptr<DecoupledCall> call;
    Hops::iterator hops;
  };
  std::map<uint64_t, Open> calls_;
  Hops hops_;
};

// The calls of an instance: the engine's and its series', whichever is destroyed first.
struct DecoupledCalls {
  explicit DecoupledCalls(std::shared_ptr<WaitingAnswers> all) : answers(std::move(all)) {}
  std::mutex mutex;
  Host* host = nullptr;                                // null: the engine is gone
  std::deque<std::shared_ptr<DecoupledCall>> waiting;  // the most urgent first
  OpenCalls open;
  const std::shared_ptr<WaitingAnswers> answers;  // of all calls of all instances
  base::Status over;
};

// The answers of a call that is one of `calls`.
std::unique_ptr<sched::AnswerSeries> make_series(std::shared_ptr<DecoupledCalls> calls,
                                                 std::shared_ptr<DecoupledCall> call);

}  // namespace weir::process
