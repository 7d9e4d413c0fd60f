// ClusterWorld: some nodes with the real Membership and Ownership, clients, and a bucket behind a bad network, in one
// thread. Which faults there are is drawn from the seed: requests and answers that are lost, late, sent twice, that
// overtake others; nodes that are cut off (and told so, or not), stopped for a while, or killed; clocks that drift by
// up to a tenth; entries whose time is over, or which the bucket has lost; processes that do not reach each other, and
// a bucket that nobody reaches.
//
// Invariants, looked at after every event: at most one node may answer for a session; what a client was told to be done
// is in the state of whoever has the session next. At the end the faults cease: then all living nodes know each other,
// and every session that was acknowledged can be had.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include "cluster/membership.h"
#include "cluster/ownership.h"
#include "cluster/peer_answers.h"
#include "cluster/relayed_bucket.h"

namespace weir::sim {

class ClusterWorld {
 public:
  explicit ClusterWorld(uint64_t seed);
  ~ClusterWorld();

  // Empty, or the invariant that broke.
  std::string run();
  std::vector<std::string> trace() const { return {trace_.begin(), trace_.end()}; }
  uint64_t hash() const { return hash_; }
  uint64_t answered() const { return answered_; }
  uint64_t taken() const { return taken_; }

 private:
  using Real = int64_t;  // nanoseconds of true time
  struct Faults {
    Real delay = 0;  // the mean
    double slow = 0, lost = 0, twice = 0, cut = 0, stop = 0, kill = 0, drift = 0, forget = 0, apart = 0, outage = 0;
  };
  class NodeEnv;
  struct SimNode;
  struct Event {
    Real when;
    uint64_t number;
    std::function<void()> run;
    bool operator<(const Event& o) const { return when != o.when ? when > o.when : number > o.number; }
  };

  uint64_t draw(uint64_t below) { return random_() % below; }
  bool chance(double p) { return double(random_() >> 11) * 0x1p-53 < p; }
  Real delay();
  void at(Real when, std::function<void()> run);
  void note(const std::string& what);
  void check();
  void step_until(Real end);
  void expire();

  void start(size_t node);
  void misfortune();
  void cut(SimNode& node);
  void outage();
  void send(SimNode& from, SimNode& to, std::function<void()> arrive);
  SimNode* node_at(const std::string& address) const;
  void connect(SimNode& node);
  void client();
  void turn(SimNode& node, const std::string& session);
  void answer(SimNode& node, const std::string& session);
  void published(const cluster::Bucket::KeyValue& entry);
  std::string at_the_end();

  std::mt19937_64 random_;
  Faults faults_;
  Real now_ = 0;
  uint64_t events_ = 0, hash_ = 1469598103934665603u, answered_ = 0, taken_ = 0, turns_ = 0;
  std::priority_queue<Event> queue_;
  std::vector<std::unique_ptr<SimNode>> nodes_;
  std::vector<std::string> sessions_;
  std::map<std::string, std::string> acknowledged_;  // session → state that a client was told to be done
  std::string broken_;
  std::deque<std::string> trace_;

  // The bucket.
  std::map<std::string, std::pair<cluster::Bucket::KeyValue, Real>> entries_;  // and when it was written
  uint64_t revision_ = 0;
  bool healed_ = false;
  bool relays_ = false;  // nodes write for each other
};

}  // namespace weir::sim
