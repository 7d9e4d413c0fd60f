// KeptWorld: nodes that keep sessions for each other, with the real KeptSessions, PartedBucket, Ownership, Membership,
// PeerAnswers and ClusterHandover, and clients that go from node to node: they resume their session, add to it, ask for
// it to be kept (KEEP), and leave. What goes wrong is drawn from the seed: NATS is killed, so that nobody knows of
// writes that were under way whether they are there, and all forget the nodes; nodes are killed, or stopped for a
// while; clients leave in the middle.
//
// Invariants: no record of a session in the bucket, and no state that a client resumes, lacks what the client was told
// to be kept; at most one node answers for a session.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "cluster/bucket.h"

namespace weir::sim {

class KeptWorld {
 public:
  explicit KeptWorld(uint64_t seed);
  ~KeptWorld();

  // Empty, or the invariant that broke.
  std::string run();
  std::vector<std::string> trace() const { return {trace_.begin(), trace_.end()}; }
  uint64_t hash() const { return hash_; }
  uint64_t answered() const { return confirmed_; }  // KEEPs
  uint64_t taken() const { return resumed_; }       // sessions

 private:
  using Real = int64_t;  // nanoseconds
  class Env;
  class Link;
  struct Attended;
  struct Process;
  struct Client;
  struct Visit;
  struct Faults {
    Real delay = 0, every = 0, outage = 0, reconnect = 0;  // the most, but for `every`
    double kill = 0, stop = 0, cut = 0;
  };
  struct Event {
    Real when;
    uint64_t number;
    std::function<void()> run;
    bool operator<(const Event& o) const { return when != o.when ? when > o.when : number > o.number; }
  };
  enum class Table : uint8_t { kNodes, kSessions };

  uint64_t draw(uint64_t below) { return random_() % below; }
  bool chance(double p) { return double(random_() >> 11) * 0x1p-53 < p; }
  Real delay() { return 1 + Real(draw(uint64_t(faults_.delay))); }
  void at(Real when, std::function<void()> run);
  void in(Real after, std::function<void()> run) { at(now_ + after, std::move(run)); }
  void note(const std::string& what);
  void check();
  void start();
  void misfortune();
  void kill_nats();

  base::Result<uint64_t> put(Table table, const std::string& key, const std::string& value, uint64_t expected,
                             bool erased);
  void check_record(const std::string& key, const std::string& value);
  Process* process_at(const std::string& address) const;

  std::mt19937_64 random_;
  Faults faults_;
  Real now_ = 0;
  uint64_t events_ = 0, hash_ = 1469598103934665603u, confirmed_ = 0, resumed_ = 0, started_ = 0;
  std::priority_queue<Event> queue_;
  std::vector<std::unique_ptr<Process>> processes_, dead_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::map<std::string, cluster::Bucket::KeyValue> tables_[2];
  uint64_t revisions_[2] = {0, 0};
  bool nats_ = true;
  uint64_t nats_life_ = 1;
  std::string broken_;
  std::deque<std::string> trace_;
};

}  // namespace weir::sim
