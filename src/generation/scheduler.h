// TokenScheduler: which sequences run in the next step. Pure: time is an argument; no thread, clock or lock.
//
// Calls wait by priority; at the same priority tenants take turns (fair_share.h), and a tenant's own calls wait in the
// order of their arrival. One is admitted when there are blocks for its whole prompt (what a session kept
// or the prefix cache holds need not be there twice). A step holds one token of each running sequence, and in the rest
// of its budget chunks of prompts, in the same order. When blocks run out, these go: cached ones, sessions that rest,
// parked sequences, then the least urgent and youngest sequence; a sequence that lost its blocks waits again, in its
// old place, and computes them once more. What it has said it does not say again.
//
// A sequence leaves before the next step when it is cancelled; it is left out of steps while its peer has no credit.
// A tenant that alone wants to run may have everything. When another's call comes for which there is no place, or are
// no blocks, and who has most has more than a share of them, its youngest sequence goes back to the queue; so a call
// waits for a step, and not for the end of what somebody else began.
//
// Draws are functions of the sequence's seed and the number of its tokens, so nothing here changes what is drawn.
//
//   add() … plan() → the engine steps → finish() …, taking mail() after each.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "base/env.h"
#include "base/fair_share.h"
#include "base/status.h"
#include "bus/stats.h"
#include "generation/fit.h"
#include "generation/kv_memory.h"
#include "generation/lane.h"
#include "generation/sequence.h"
#include "generation/step_rows.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::generation {

base::Status queue_full(const msg::ModelSpec& spec, const TokenPolicy& policy);

class TokenScheduler {
 public:
  // The engine has reserved room.blocks blocks of room.block_size positions. All outlive this; stats.tokens is there.
  // `seed`: of what is random here.
  TokenScheduler(TokenEngine& engine, TokenRoom room, const TokenPolicy& policy, const msg::ModelSpec& spec,
                 bus::ModelStats& stats, uint64_t seed);
  ~TokenScheduler();  // everything has been answered

  // Queues a Call that fits_tokens().
  void add(msg::Call* call, base::Time now);
  // A Call of this session was refused outside: its history may be `length` positions from now on.
  void cut(base::SessionId session, uint32_t length) { memory_.cut(session, length); }
  // The next step, to be run and then finished; null when nothing can run now.
  TokenStep* plan(base::Time now);
  // While that step still runs: another one behind it, of the same sequences as far as they go on whatever is drawn.
  // Null when something else comes first, or nobody goes on. finish() is then of the older one, and the newer one
  // stands where plan()'s stood: it may have rows of sequences that have ended since, whose results nobody hears.
  TokenStep* plan_ahead(base::Time now);
  // The step has been run. A failure fails its sequences, and only these.
  void finish(const base::Status& outcome, base::Time now);
  // An image that somebody has to look at before its sequence can run, the first in order; each is given out once. A
  // copy, since its Call may leave meanwhile.
  struct PendingImage {
    uint64_t id;
    msg::Image image;
  };
  std::optional<PendingImage> next_image();
  // What was seen. Not between plan() and finish(), as is next_image().
  void on_image_encoded(uint64_t id, base::Result<ImageFeatures> features, base::Time now);
  // Answers everything that is here with a failure. Not between plan() and finish().
  void fail_all(const base::Status& status, base::Time now);
  // Forgets everything that is here, in whatever state an exception has left it: whoever calls this has answered for
  // it. Then it is only destroyed.
  void abandon();

  // What is to be posted, in order; the caller takes it out. A Call whose last Event is here is not touched any more.
  std::vector<msg::Mail>& mail() { return mail_; }
  // When a waiting call leaves the queue if nothing else happens.
  base::Time leaves_at() const;
  bool empty() const { return waiting_.empty() && active_.empty(); }
  size_t waiting() const { return waiting_.size(); }
  size_t active() const { return active_.size(); }
  // Who has most calls waiting that have not begun; for a full queue, from which the last of them goes when another
  // tenant's call comes.
  struct LargestTenant {
    uint64_t tenant = 0;
    size_t calls = 0;
  };
  LargestTenant largest_tenant() const;
  const KvMemory& memory() const { return memory_; }

 private:
  using Owned = std::unique_ptr<Sequence>;
  enum class Claim : uint8_t { kGrow, kAdmit };

  uint32_t level_of(const msg::Call& call) const;
  void release_session(msg::Call* call, base::Time now);
  static void insert(std::vector<Owned>& line, Owned sequence);

  // Who leaves.
  void sweep(base::Time now);
  base::Status leaving(const Sequence& s, base::Time now) const;
  void drop_gone();

  // Who comes.
  void admit_waiting(base::Time now);
  bool admit(Sequence& s, base::Time now);
  void push_out(base::Time now);
  bool make_room(Sequence& s);
  enum class Scarce : uint8_t { kSlots, kBlocks };
  Sequence* over_share(const Sequence& claimant, Scarce what) const;
  bool make_way(const Sequence& claimant, Scarce what);
  void give_back(Sequence& s);
  void start(Sequence& s, base::Time now);
  static void want_images(Sequence& s);
  base::Status take(Sequence& s, Sequence::ImageState& state, base::Result<ImageFeatures> features) const;
  size_t backlog() const;
  size_t running() const;  // admitted and not parked
  bool alone() const;      // nobody is admitted

  // Blocks (step_planner.cc, as are rows).
  bool relieve(const Sequence& claimant, Claim claim);
  Sequence* victim(const Sequence& claimant, Claim claim) const;
  void preempt(Sequence& s);
  void settle_evicted();

  // Rows.
  bool runs(const Sequence& s) const {
    return s.place == Sequence::Place::kActive && !s.planned && !s.unseen && !s.parked();
  }
  void plan_decodes(uint32_t& budget);
  void plan_prefills(uint32_t& budget);
  void review(Sequence& s, uint32_t& budget);
  uint32_t allowed(const Sequence& s, uint32_t from, uint32_t count) const;

  // Running ahead (run_ahead.cc).
  enum class Next : uint8_t { kGoesOn, kIsReadOut, kEnds, kWaits };
  bool can_run_ahead(base::Time now) const;
  Next next_of(const TokenRun& run) const;
  int64_t pending_events(const TokenRun& run) const;
  void advance();

  // What a step said (step_results.cc).
  struct Cursor {
    size_t request = 0, readout = 0, pool = 0;
  };
  void process_row(const TokenRun& run, const TokenStep::Row& row, Cursor& at, base::Time now);
  void pass_over(const TokenStep::Row& row, Cursor& at) const;
  void process_positions(const TokenRun& run, const TokenStep::Row& row, Cursor& at, TokenStep::LogitsRequest*& draw);
  void hear_pool(Sequence& s, Cursor& at);
  void process_sample(Sequence& s, TokenStep::LogitsRequest& request, base::Time now);
  msg::Finish reason_to_end(const Sequence& s, uint32_t id) const;
  void emit_prompt_token(Sequence& s, uint32_t position, std::vector<float>* readout);
  void emit_token(Sequence& s, msg::Token token);
  bool complete(const Sequence& s) const;
  void finish_sequence(Sequence& s, base::Time now);
  void fail(Sequence& s, base::Status status, base::Time now);
  void leave(Sequence& s);
  void count(const Sequence& s, base::Time now);
  void count_step(base::Time now);
  void gauge();

  TokenEngine& engine_;
  const TokenPolicy policy_;
  const msg::ModelSpec& spec_;
  const TokenRoom room_;
  const uint32_t limit_;  // positions of one sequence
  bus::ModelStats& stats_;
  bus::TokenStats& tokens_;
  KvMemory memory_;
  StepRows rows_, ahead_;
  std::mt19937_64 random_;
  base::FairShare share_;
  uint64_t arrivals_ = 0, image_jobs_ = 0;
  base::Time planned_{}, planned_ahead_{};  // when the steps were laid out
  std::vector<uint32_t> draws_;             // per row of a step: the look that draws
  std::vector<Owned> waiting_, active_;     // each in order
  struct {
    int64_t running = 0, waiting = 0, used = 0, cached = 0, sessions = 0;
  } shown_;  // this lane's part of the model's gauges
  std::vector<msg::Mail> mail_;
};

}  // namespace weir::generation
