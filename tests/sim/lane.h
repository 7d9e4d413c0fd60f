// A lane of the simulator: the real Batcher and the real Runner, without a thread. The World decides when an engine
// takes a batch, when it is done with it, and when its mail reaches the shards.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/fake_env.h"
#include "bus/stats.h"
#include "msg/call.h"
#include "sched/batcher.h"
#include "sched/runner.h"

namespace weir::sim {

// y = x + the lane's generation, row by row; certain values make it misbehave.
inline constexpr float kPoison = 1e6f;    // fails the batch
inline constexpr float kAllergic = 2e6f;  // fails its call alone
inline constexpr float kShort = 3e6f;     // the batch's output lacks a row
inline constexpr float kGreedy = 4e6f;    // the engine has no memory for the batch

class AddEngine final : public sched::Engine {
 public:
  // Answers in memory of `slabs` while there is some.
  AddEngine(float generation, const msg::ModelSpec& spec, base::SlabSource& slabs)
      : generation_(generation), spec_(spec), slabs_(slabs) {}
  const msg::ModelSpec& spec() const override { return spec_; }
  base::Status step(sched::Batch& batch) override;

 private:
  float generation_;
  const msg::ModelSpec& spec_;
  base::SlabSource& slabs_;
};

// Stands between lanes and one shard's mailbox. Bursts of one lane arrive in their order, but as late as the World
// likes, so that those of different lanes overtake each other.
class Way final : public msg::Home {
 public:
  explicit Way(msg::Home& home) : home_(home) {}
  void post(std::vector<msg::Mail>& burst) override;
  void post_here(msg::Mail&& mail) override { home_.post_here(std::move(mail)); }
  // The oldest burst reaches the mailbox; false when there was none.
  bool deliver();
  bool empty() const { return bursts_.empty(); }

 private:
  msg::Home& home_;
  std::deque<std::vector<msg::Mail>> bursts_;
};

class Lane final : public msg::Inbox {
 public:
  Lane(base::FakeEnv& env, const msg::ModelSpec& spec, bus::ModelStats& stats, base::SlabSource& slabs,
       float generation);
  ~Lane() override;  // aborts if a Call is still inside

  void put(msg::Call* call) override;
  void poke() override {}

  // An instance of the engine takes a batch, if one is ready; it will be done after `work`.
  bool take(base::Duration work);
  // The instance that took first is done, if its time has come.
  bool finish();
  // A burst of its mail arrives at the n-th shard that it has mail for.
  bool deliver(size_t n);
  // From now on mail arrives only by deliver().
  void hold_mail() { holds_mail_ = true; }

  // When something can happen here next.
  base::Time next();
  size_t queued() const { return batcher_.size(); }

 private:
  struct Running {
    std::vector<msg::Call*> calls;
    base::Time done;
  };
  void refuse(std::vector<sched::Dropped>& dropped);
  void post();

  base::FakeEnv& env_;
  const msg::ModelSpec& spec_;
  AddEngine engine_;
  sched::Batcher batcher_;
  sched::Runner::Room room_;
  sched::Runner runner_;
  std::deque<Running> running_;
  bool holds_mail_ = false;
  std::map<msg::Home*, size_t> way_of_;
  std::deque<Way> ways_;
};

// The clock of the Runners, set by the World.
void set_time(base::Time now);

}  // namespace weir::sim
