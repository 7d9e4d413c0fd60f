// Runner: the way of a batch through one engine: stage, step, split, count, answer. One thread at a time.
#pragma once

#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "bus/mail_bursts.h"
#include "bus/stats.h"
#include "msg/call.h"
#include "msg/spec.h"
#include "sched/engine.h"
#include "sched/response_order.h"
#include "sched/staging.h"

namespace weir::sched {

class Runner {
 public:
  // Memory that one batch leaves to the next.
  struct Room {
    Batch batch;
    std::vector<Split::Part> parts;
    bus::MailBursts outgoing;
    std::vector<msg::Event> events;
    std::vector<msg::Call*> under_way;       // of launch(), until land()
    std::vector<base::Time> came;            // when the calls of the batch were queued
    int32_t instance = -1;                   // of the lane; -1: its batches are not kept in the timeline
    base::Time (*now)() = base::steady_now;  // the simulator has a clock of its own
    ResponseOrder* order = nullptr;          // where the answers of the batch wait for their turn; null: they do not
    uint64_t number = 0;                     // of the batch, there
  };

  // All outlive this; the Room is used by one Runner at a time.
  Runner(Engine& engine, const msg::ModelSpec& spec, bus::ModelStats& stats, base::SlabSource& slabs, Room& room)
      : engine_(engine),
        spec_(spec),
        stats_(stats),
        slabs_(engine.staging() ? *engine.staging() : slabs),
        room_(room),
        batch_(room.batch) {}

  // Exceptions end here: by the engine, of whatever type, as a failure of its batch, or of the calls of it that
  // fail alone; by the lane's own bookkeeping, as a failure of the calls that have not been answered. Answers wait for
  // the memory that they need to leave: none is lost.
  //
  // Runs the calls together; when that fails, or there is no memory to lay them side by side, one by one. All of them
  // are answered; the answers leave with post().
  void run(const std::vector<msg::Call*>& calls);
  // For engines with depth() > 1, in place of run(): launches the calls together. kOver: they are answered. kLater: for
  // want of memory, while others are under way; nothing has happened yet, and it may be tried again.
  enum class Launched : uint8_t { kUnderWay, kOver, kLater };
  enum class Company : uint8_t { kAlone, kOthers };  // whether others are under way
  Launched launch(const std::vector<msg::Call*>& calls, Company company);
  // True once what was launched is over; then all its calls are answered.
  bool land();
  // For a Runner on the home shard of a call that has not waited: it is queued, run if it fits (rows_fit()), and its
  // answer leaves at once. What this throws leaves the call to its caller.
  void run_here(msg::Call* call);
  // Answers a call that is not run.
  void refuse(msg::Call* call, base::Status status);

  // One burst per home shard. The Calls answered so far are not to be touched any more.
  void post();
  // The same for the last answers of a batch.
  void post_last();

 private:
  struct Clock {
    base::Time started{}, gathered{}, computing{}, computed{}, landed{}, finished{};
  };
  template <class Work>
  void answer_if_thrown(const std::vector<msg::Call*>& calls, Work&& work);
  bool together(const std::vector<msg::Call*>& calls);
  void one_by_one(const std::vector<msg::Call*>& calls);
  void landed(base::Status status);
  void over(const std::vector<msg::Call*>& calls, base::Status why);
  void alone(msg::Call* call, base::Time started);
  base::Status try_alone(msg::Call* call, Clock& clock);
  bool staged(Clock& clock);
  template <class Run>
  base::Status guarded(Run&& run);
  base::Status unstaged() const;
  base::Status step(Clock& clock);
  base::Status part();
  bool part_alone();
  base::Status part_answers();
  void answer(Clock& clock);
  void settle(Clock& clock);
  msg::Event failed(msg::Call& call, base::Status status);
  void count(const Clock& clock, uint64_t calls, uint64_t rows, base::Duration queued);
  void record(const Clock& clock);
  void mail(msg::Call* call, msg::Event&& event);
  void release();

  Engine& engine_;
  const msg::ModelSpec& spec_;
  bus::ModelStats& stats_;
  base::SlabSource& slabs_;
  Room& room_;
  Batch& batch_;
  Clock launched_;  // of the batch that is under way
  // Inside of answer_if_thrown(): the calls to be answered, in their order, and how many have been.
  const std::vector<msg::Call*>* owed_ = nullptr;
  size_t answered_ = 0;
};

}  // namespace weir::sched
