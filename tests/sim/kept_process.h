// A process of KeptWorld: its clock and timers, its connections to NATS, the rooms' classes, and the sessions of
// clients that are connected to it.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "app/cluster_handover.h"
#include "cluster/cluster.h"
#include "cluster/membership.h"
#include "cluster/parted_bucket.h"
#include "cluster/peer_answers.h"
#include "kept_world.h"

namespace weir::sim {

using base::Code;
using base::failure;
using base::Status;
using cluster::Bucket;

inline constexpr int64_t kMs = 1'000'000, kSecond = 1000 * kMs;

// Timers that wait while the process is stopped, and are gone when it is killed.
class KeptWorld::Env final : public base::Env {
 public:
  explicit Env(KeptWorld& world) : world_(world) {}

  base::Time now() const override { return base::Time(base::Duration(kBegin + world_.now_)); }
  base::WallTime wall() const override { return base::WallTime(base::Duration(kBegin + world_.now_)); }
  uint64_t random() override { return world_.random_(); }
  base::TimerId at(base::Time when, std::function<void()> fire) override {
    const uint64_t id = add(std::move(fire));
    if (when != base::kNever) world_.at(when.time_since_epoch().count() - kBegin, [this, id] { fire_or_wait(id); });
    return base::TimerId(id);
  }
  void cancel(base::TimerId id) override { timers_.erase(uint64_t(id)); }

  // Runs `what` on this process, later if it is stopped, never once it is killed.
  void deliver(std::function<void()> what) {
    if (alive_) fire_or_wait(add(std::move(what)));
  }
  void stop_until(Real when) { stopped_until_ = when; }
  bool alive() const { return alive_; }
  void kill() { alive_ = false, timers_.clear(), waiting_.clear(); }

 private:
  static constexpr Real kBegin = 1000 * kSecond;

  uint64_t add(std::function<void()> what) {
    timers_[++last_] = std::move(what);
    return last_;
  }
  bool stopped() const { return world_.now_ < stopped_until_; }
  void fire_or_wait(uint64_t id);
  void go_on();
  void fire(uint64_t id);

  KeptWorld& world_;
  uint64_t last_ = 0;
  std::map<uint64_t, std::function<void()>> timers_;
  std::deque<uint64_t> waiting_;  // while it is stopped
  bool alive_ = true;
  Real stopped_until_ = 0;
};

// A connection to NATS with a thread of its own: one request after the other, each for a second at most.
class KeptWorld::Link final : public Bucket {
 public:
  Link(KeptWorld& world, Env& env, Table table) : world_(world), env_(env), table_(table) {}
  void start() { connect(); }
  void lost();
  bool up() const { return up_; }
  std::function<void()> connected, disconnected;  // of membership; or null

  void write(const std::string& key, std::string value, uint64_t expected, OnWritten then) override {
    request<uint64_t>([this, key, value, expected] { return world_.put(table_, key, value, expected, false); }, then);
  }
  void erase(const std::string& key, uint64_t expected, OnWritten then) override {
    request<uint64_t>([this, key, expected] { return world_.put(table_, key, "", expected, true); }, then);
  }
  void read(const std::string& key, OnRead then) override;

 private:
  template <class Answer>
  void request(std::function<base::Result<Answer>()> execute, std::function<void(base::Result<Answer>)> then);
  void connect();
  void next();

  KeptWorld& world_;
  Env& env_;
  const Table table_;
  bool up_ = false, busy_ = false;
  uint64_t life_ = 0;  // of NATS, that it is connected to
  std::deque<std::function<void()>> requests_;
};

// The session of one connection of a client, as evergreen::SessionKeeper has it.
struct KeptWorld::Attended {
  explicit Attended(Process& its_process) : process(its_process) {}
  bool lost() const;  // this node may not have it any more

  Process& process;
  base::SessionId id{};
  std::set<std::string> items;
  bool held = false, over = false, due = false, awaited = false, changed = false;
  uint64_t epoch = 0, begun = 0, done = 0;  // saves
  Status last_save;
  Real last_begun = 0;
  std::function<void(Status)> on_over;
  std::vector<std::pair<uint64_t, std::function<void(Status)>>> keeps;  // by the save that tells
};

struct KeptWorld::Process final : private cluster::Peers {
  Process(KeptWorld& its_world, std::string its_name);

  // Work of its threads for each other, in order.
  void hop(std::function<void()> work);
  std::shared_ptr<Attended> attend();
  void hold(Attended& s);
  void settle(Attended& s);  // saves what is due, if it may
  enum class Save : uint8_t { kNo, kLast };
  void end(Attended& s, const Status& why, Save save);

  KeptWorld& world;
  const std::string name;
  Env env;
  Link nodes, records;
  cluster::Membership membership;
  cluster::PartedBucket parted;
  cluster::Ownership ownership;
  cluster::KeptSessions kept;
  cluster::PeerAnswers answers;
  cluster::Cluster calls;  // of the handover
  app::ClusterHandover handover;
  std::map<Attended*, std::shared_ptr<Attended>> sessions;

 private:
  static cluster::Node described(const std::string& name);
  cluster::Membership::Listener listener();
  void wire();
  void ask(const std::string& address, std::string request, Then then) override;
  void ask_owner(const std::string& owner, const std::string& id, const std::string& whose,
                 const cluster::Ownership::Done& then);
  void save(Attended& s);
  void saved(Attended& s, uint64_t number, const Status& status);

  base::Time claimed_until_{};
  uint64_t claimed_ = 0;
  Real last_hop_ = 0;
};

std::string text_of(const std::set<std::string>& items);
std::set<std::string> items_of(const std::string& text);

}  // namespace weir::sim
