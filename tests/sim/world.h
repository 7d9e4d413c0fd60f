// World: N virtual shards, lanes and clients in one thread, driven by one seed. What happens next is drawn at random
// from what can happen, so that the order in which shards, lanes and timers meet varies from seed to seed.
//
// Checked at every step: I2 (accepted = outcomes + in flight, per shard), I5 (one batch per Call), I9 (no compute after
// cancel or for nobody); at every outcome: I1 (exactly one), I6 (its own rows, of one version), I10 (not after the
// deadline, and no DEADLINE_EXCEEDED before), I20 (faults of others do not reach it); at the
// end: nothing is left, I7 (all slab bytes are back), I18 (models went after their last Call; see Lane).
#pragma once

#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/fake_env.h"
#include "bus/bus.h"
#include "device/pool.h"
#include "lane.h"

namespace weir::sim {

// Drawn from the seed at the start, so that every seed is another kind of world.
struct Options {
  uint32_t shards, instances, max_batch, max_queue, max_in_flight, priority_levels, calls, tenants;
  bool dynamic, preferred, any_width, delays;
  base::Duration max_delay, queue_timeout, longest_work, shortest_deadline;
  double faults, cancels, deadlines, swaps, chains;
  double lost_wakes;  // a shard that was to be woken sleeps until its next tick
  double no_memory;   // for what a client makes of its answer
  double stalls;      // a batch takes a thousand times as long
  bool late_mail;     // bursts of lanes overtake each other
  uint64_t slab_budget;
  std::string text() const;
};

class World {
 public:
  explicit World(uint64_t seed);
  ~World();

  // Runs to the end. Empty, or what was broken.
  std::string run();
  uint64_t hash() const { return hash_; }
  const Options& options() const { return options_; }
  const std::deque<std::string>& trace() const { return trace_; }
  size_t sent() const { return sent_; }
  size_t heard() const { return heard_; }

 private:
  struct Client;
  struct Shard;
  struct Version;

  uint64_t draw(uint64_t n) { return random_() % n; }
  bool chance(double p) { return double(random_() >> 11) * 0x1p-53 < p; }
  void wake(Shard& shard);
  void note(std::string event);
  void broken(std::string what);

  void act();
  void send(Shard& shard, const char* model);
  void fill(msg::Call& call, Client& client);
  void judge(const Client& client, const msg::Event& event);
  void abandon_some();
  void swap_model();
  void publish(Shard& shard);
  void retire();
  void work();
  void pass_time();
  void check_ledger();
  bool quiet() const;
  void check_end();

  std::mt19937_64 random_;
  Options options_;
  base::FakeEnv env_;
  base::Time tick_{};  // when all shards turn, whatever became of their wakes
  device::SlabPool slabs_;
  std::shared_ptr<bus::Served> echo_;  // an inline model
  std::deque<Version> versions_;
  std::deque<Shard> shards_;
  std::deque<Client> clients_;
  uint32_t sent_ = 0;
  size_t heard_ = 0;
  uint64_t hash_ = 0xcbf29ce484222325;
  std::string broken_;
  std::deque<std::string> trace_;
};

}  // namespace weir::sim
