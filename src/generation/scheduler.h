// TokenScheduler: runs the sequences of one engine, step by step. Pure: time is an argument; no thread, clock or lock.
//
// Its parts are AdmissionQueue (Calls that wait), ActiveSequences (those that run, and which of them give way),
// StepPlanner (the rows of the next step) and StepResults (events, and ends of sequences). It does itself what concerns
// all of them: it drops Calls that were cancelled or are late before a step, and keeps track of sessions and images.
//
// A sampled token depends on the logits, on the sequence's seed and on the number of its tokens, and on nothing here.
//
//   add() … plan() → the engine steps → finish() …, taking mail() after each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "bus/stats.h"
#include "generation/active_sequences.h"
#include "generation/admission_queue.h"
#include "generation/fit.h"
#include "generation/kv_memory.h"
#include "generation/policy.h"
#include "generation/scheduler_stats.h"
#include "generation/step_planner.h"
#include "generation/step_results.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::generation {

class TokenScheduler {
 public:
  // The engine has reserved room.blocks blocks of room.block_size positions. All outlive this; stats.tokens is there.
  // From `seed` come the seeds of sequences that bring none, and the key of the hashes of the prefix cache.
  TokenScheduler(TokenEngine& engine, TokenRoom room, const TokenPolicy& policy, const msg::ModelSpec& spec,
                 bus::ModelStats& stats, uint64_t seed);
  ~TokenScheduler();  // every Call has been answered by then
  TokenScheduler(const TokenScheduler&) = delete;
  TokenScheduler& operator=(const TokenScheduler&) = delete;

  // Queues a Call that fits_tokens().
  void add(msg::Call* call, base::Time now);
  // A Call of this session was refused before it came here. Its client then counts on a history of `length` positions:
  // what is stored behind them is dropped.
  void cut(base::SessionId session, uint32_t length) { memory_.cut(session, length); }
  // Returns the next step, to be run and then given to finish(); null when nothing can run now.
  TokenStep* plan(base::Time now);
  // Returns, while that step runs, a second one behind it: of those of its sequences that continue whichever token is
  // sampled, of what was left of their prompts, and of Calls that came meanwhile. Null when something else has to be
  // done first, or nothing can run. The next finish() is of the older step; then the newer one takes its place. It may
  // have rows of sequences that have ended since; their results are dropped.
  TokenStep* plan_ahead(base::Time now);
  // The step has been run. A failure fails its sequences, and only these.
  void finish(const base::Status& outcome, base::Time now);
  // An image that has to be encoded before its sequence can run. It is a copy, since its Call may leave meanwhile.
  struct PendingImage {
    uint64_t id;
    msg::Image image;
  };
  // Returns the first of them, each once. Not between plan() and finish(); nor is on_image_encoded(), which takes the
  // features.
  std::optional<PendingImage> next_image();
  void on_image_encoded(uint64_t id, base::Result<ImageFeatures> features, base::Time now);
  // Answers everything that is here with a failure. Not between plan() and finish().
  void fail_all(const base::Status& status, base::Time now);
  // After an exception, when the caller has answered all Calls: forgets everything, whatever state it is in. After it
  // only the destructor may be called.
  void abandon();

  // Events to be posted, in order; the caller takes them out. A Call whose last Event is here is not touched any more.
  std::vector<msg::Mail>& mail() { return results_.mail(); }
  bool empty() const { return queue_.empty() && active_.empty(); }
  size_t active() const { return active_.size(); }
  const AdmissionQueue& queue() const { return queue_; }
  const KvMemory& memory() const { return memory_; }

 private:
  void release_session(msg::Call* call, base::Time now);
  void drop_leaving(base::Time now);
  using Preempts = AdmissionQueue::Pass::Preempts;
  void admit(base::Time now, Preempts preempts);
  void start(Sequence& s, base::Time now);
  void catch_up(Sequence& s);
  bool nobody_leaves(base::Time now) const;
  void fail(Sequence& s, base::Status status, base::Time now);
  void erase_gone();
  void show_gauges() { gauges_.show(queue_.size(), active_.size(), memory_); }

  const TokenPolicy policy_;
  const msg::ModelSpec& spec_;
  bus::ModelStats& stats_;
  const uint32_t limit_;  // positions of one sequence
  KvMemory memory_;
  ActiveSequences active_;
  AdmissionQueue queue_;
  StepPlanner planner_;
  StepResults results_;
  SchedulerGauges gauges_;
  uint64_t image_jobs_ = 0;
  bool arrived_ = false;  // a Call has come since the last plan()
};

}  // namespace weir::generation
