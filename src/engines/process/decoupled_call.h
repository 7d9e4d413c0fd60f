// DecoupledCall: a call inside a decoupled model's process, and its answers between the two threads that use it:
// the engine's (decoupled.cc), which receives them, and the Inbox's, which takes them from the series. Calls wait for
// whichever of the model's children is free first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "base/status.h"
#include "engines/process/host.h"
#include "engines/process/nested.h"
#include "engines/process/waiting_answers.h"
#include "msg/call.h"
#include "sched/decoupled_engine.h"

namespace weir::process {

struct ChildCalls;

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
  std::shared_ptr<ChildCalls> child;  // that has it, or alone may have it; null: the first that is free may
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

// A child's part of a model's calls. Under DecoupledCalls::mutex, but `wake`.
struct ChildCalls {
  ChildCalls(Host& its_host, int its_wake) : host(&its_host), wake(its_wake) {}
  bool serves() const { return host && over.ok(); }

  Host* host;      // null: the engine is gone
  const int wake;  // an eventfd of the engine, whose thread waits for it
  OpenCalls open;
  bool called = false;  // the child has a request that it has not taken, or the thread is to look for one
  base::Status over;    // why the child gets no more calls
};

// The calls of a model: its engines' and its series', whichever is destroyed first.
struct DecoupledCalls {
  using Batch = std::vector<std::shared_ptr<DecoupledCall>>;
  explicit DecoupledCalls(std::shared_ptr<WaitingAnswers> all) : answers(std::move(all)) {}

  // The mutex is held in all of these. add() gives the call its number and its place behind those that are as urgent.
  void add(const std::shared_ptr<DecoupledCall>& call);
  // Takes the most urgent call that `child` may have, and those of its level behind it, `most_rows` in all, or that one
  // alone.
  Batch take(const std::shared_ptr<ChildCalls>& child, uint64_t most_rows);
  // Where calls wait for any child: calls the one with the fewest calls among those that have nothing to take, and are
  // to be roused then; null: none is to be roused, and those that are busy look by themselves when they are not.
  std::shared_ptr<ChildCalls> call_idle();
  // The child is over, and so are its calls, and those that no other child will have.
  void end(ChildCalls& child, const base::Status& why);

  std::mutex mutex;
  std::vector<std::shared_ptr<ChildCalls>> children;
  std::deque<std::shared_ptr<DecoupledCall>> waiting;  // the most urgent first
  uint64_t next_number = 1;
  const std::shared_ptr<WaitingAnswers> answers;
};

// The answers of a call that is one of `calls`.
std::unique_ptr<sched::AnswerSeries> make_series(std::shared_ptr<DecoupledCalls> calls,
                                                 std::shared_ptr<DecoupledCall> call);

}  // namespace weir::process
