// TokenScheduler: runs the sequences of one engine, step by step. Pure: time is an argument; no thread, clock or lock.
//
// It ties together AdmissionQueue (the Calls that wait), ActiveSequences (those that run, and which of them give way),
// StepPlanner (the rows of the next step) and StepResults (events, and ends of sequences). Here is what concerns all of
// them: who leaves before the next step because it was cancelled or is late, sessions, and images.
//
// Draws are functions of the sequence's seed and the number of its tokens, so nothing here changes what is drawn.
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
  // `seed`: of the seeds of sequences that bring none, and of the hashes of contents.
  TokenScheduler(TokenEngine& engine, TokenRoom room, const TokenPolicy& policy, const msg::ModelSpec& spec,
                 bus::ModelStats& stats, uint64_t seed);
  ~TokenScheduler();  // everything has been answered
  TokenScheduler(const TokenScheduler&) = delete;
  TokenScheduler& operator=(const TokenScheduler&) = delete;

  // Queues a Call that fits_tokens().
  void add(msg::Call* call, base::Time now);
  // A Call of this session was refused outside: its history may be `length` positions from now on.
  void cut(base::SessionId session, uint32_t length) { memory_.cut(session, length); }
  // The next step, to be run and then finished; null when nothing can run now.
  TokenStep* plan(base::Time now);
  // While that step still runs: another one behind it, of the same sequences as far as they go on whatever is drawn.
  // Null when something else comes first, or no sequence goes on. finish() is then of the older one, and the newer one
  // stands where plan()'s stood: it may have rows of sequences that have ended since, whose results are dropped.
  TokenStep* plan_ahead(base::Time now);
  // The step has been run. A failure fails its sequences, and only these.
  void finish(const base::Status& outcome, base::Time now);
  // The first image in order that has to be encoded before its sequence can run. Each is given out once, as a copy,
  // since its Call may leave meanwhile.
  struct PendingImage {
    uint64_t id;
    msg::Image image;
  };
  std::optional<PendingImage> next_image();
  // Its features. Not between plan() and finish(), as is next_image().
  void on_image_encoded(uint64_t id, base::Result<ImageFeatures> features, base::Time now);
  // Answers everything that is here with a failure. Not between plan() and finish().
  void fail_all(const base::Status& status, base::Time now);
  // Forgets everything that is here, in whatever state an exception has left it: the caller has answered all Calls.
  // Then it is only destroyed.
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
  void admit(base::Time now);
  void start(Sequence& s, base::Time now);
  bool can_run_ahead(base::Time now) const;
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
};

}  // namespace weir::generation
