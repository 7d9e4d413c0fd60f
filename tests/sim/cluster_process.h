// A process of ClusterWorld: its clock and timers, its side of the network, and the rooms' classes.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cluster_world.h"

namespace weir::sim {

using base::Code;
using cluster::Bucket;
using cluster::Membership;
using cluster::Ownership;
using cluster::Record;

inline constexpr int64_t kMs = 1'000'000, kSecond = 1000 * kMs;
inline constexpr int64_t kTimeout = 2 * kSecond;  // of a request to the bucket

// As in production, but for how long a node goes on alone.
inline cluster::Rules cluster_rules() {
  cluster::Rules out;
  out.fence_after = std::chrono::seconds(7), out.alone = std::chrono::seconds(10);
  return out;
}

// A clock of its own, and timers that wait while the process is stopped and are gone when it is killed.
class ClusterWorld::NodeEnv final : public base::Env {
 public:
  NodeEnv(ClusterWorld& world, double rate)
      : world_(world), rate_(rate), offset_(int64_t(world.draw(kSecond * 1000))) {}

  base::Time now() const override { return base::Time(base::Duration(offset_ + int64_t(double(world_.now_) * rate_))); }
  base::WallTime wall() const override { return base::WallTime(base::Duration(world_.now_ + kSecond)); }
  uint64_t random() override { return world_.random_(); }
  base::TimerId at(base::Time when, std::function<void()> fire) override {
    const uint64_t id = ++last_;
    timers_[id] = std::move(fire);
    const Real real = Real(double(when.time_since_epoch().count() - offset_) / rate_) + 1;
    world_.at(std::max(real, world_.now_), [this, alive = alive_, id] {
      if (*alive) fire_or_wait(id);
    });
    return base::TimerId(id);
  }
  void cancel(base::TimerId id) override { timers_.erase(uint64_t(id)); }

  // Runs `what` on this process, later if it is stopped, never once it is killed.
  void deliver(std::function<void()> what) {
    const auto id = uint64_t(++last_);
    timers_[id] = std::move(what);
    fire_or_wait(id);
  }
  void stop_until(Real when) {
    stopped_until_ = when;
    go_on();
  }
  bool stopped() const { return world_.now_ < stopped_until_; }
  std::shared_ptr<bool> alive() const { return alive_; }
  void kill() {
    *alive_ = false;
    timers_.clear();
  }

 private:
  void fire_or_wait(uint64_t id) {
    if (!stopped() && waiting_.empty()) return fire(id);
    waiting_.push_back(id);
    go_on();
  }
  // Work that has waited runs in its order.
  void go_on() {
    while (!waiting_.empty() && !stopped()) {
      const uint64_t id = waiting_.front();
      waiting_.pop_front();
      fire(id);
    }
    if (!waiting_.empty())
      world_.at(stopped_until_, [this, alive = alive_] {
        if (*alive) go_on();
      });
  }
  void fire(uint64_t id) {
    auto found = timers_.find(id);
    if (found == timers_.end()) return;
    auto run = std::move(found->second);
    timers_.erase(found);
    run();
  }

  ClusterWorld& world_;
  const double rate_;
  const int64_t offset_;
  uint64_t last_ = 0;
  std::map<uint64_t, std::function<void()>> timers_;
  std::deque<uint64_t> waiting_;  // while it is stopped
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  Real stopped_until_ = 0;
};

// A process: its side of the bucket and of the other processes, and the rooms' classes.
struct ClusterWorld::SimNode final : private cluster::Peers {
  // The bucket as NATS carries it.
  struct Direct final : Bucket {
    explicit Direct(SimNode& its) : node(its) {}
    void write(const std::string& key, std::string value, uint64_t expected, OnWritten then) override {
      node.request<uint64_t>([w = &node.world, key, value, expected] { return put(*w, key, value, expected, false); },
                             then);
    }
    void erase(const std::string& key, uint64_t expected, OnWritten then) override {
      node.request<uint64_t>([w = &node.world, key, expected] { return put(*w, key, "", expected, true); }, then);
    }
    void read(const std::string& key, OnRead then) override {
      node.request<KeyValue>(
          [w = &node.world, key]() -> base::Result<KeyValue> {
            w->expire();
            auto found = w->entries_.find(key);
            if (found == w->entries_.end()) return base::failure(Code::kNotFound, "nothing there");
            return found->second.first;
          },
          then);
    }
    SimNode& node;
  };

  SimNode(ClusterWorld& w, size_t its_number, double rate, std::string name)
      : world(w),
        number(its_number),
        env(w, rate),
        direct(*this),
        bucket(direct, w.relays_ ? this : nullptr, [this] { return addresses(); }),
        membership(env, bucket, cluster_rules(), "", described(std::move(name)), listener(), this),
        ownership(bucket, membership, 100),
        answers(membership, direct, direct, cluster::PeerAnswers::Relays::kYes) {}

  static cluster::Node described(std::string name) {
    cluster::Node node;
    node.id = std::move(name), node.address = "http://" + node.id;
    return node;
  }
  Membership::Listener listener() {
    Membership::Listener out;
    out.fenced = [this] {
      world.note(membership.self().id + " was fenced");
      ownership.drop_all(), states.clear();
    };
    return out;
  }

  // `execute` runs at the bucket when the request comes there, once or twice or never; of its answers the first counts.
  template <class Answer>
  void request(std::function<base::Result<Answer>()> execute, std::function<void(base::Result<Answer>)> then) {
    auto answered = std::make_shared<bool>(false);
    auto tell = [this, alive = env.alive(), answered, then](base::Result<Answer> result) {
      if (!*alive) return;
      env.deliver([answered, then, result] {
        if (!std::exchange(*answered, true)) then(result);
      });
    };
    world.at(world.now_ + kTimeout, [tell] { tell(base::failure(Code::kUnavailable, "no answer")); });
    if (cut) return;
    const int times = world.chance(world.faults_.twice) ? 2 : 1;
    for (int i = 0; i < times; ++i) {
      if (world.chance(world.faults_.lost)) continue;
      world.at(world.now_ + world.delay(), [this, alive = env.alive(), execute, tell] {
        auto result = execute();
        if (!*alive || cut || world.chance(world.faults_.lost)) return;
        world.at(world.now_ + world.delay(), [tell, result] { tell(result); });
      });
    }
  }
  // The bucket outlives the node, so that what has left may come there afterwards.
  static base::Result<uint64_t> put(ClusterWorld& w, const std::string& key, const std::string& value,
                                    uint64_t expected, bool erased) {
    w.expire();
    auto found = w.entries_.find(key);
    const uint64_t is = found == w.entries_.end() ? 0 : found->second.first.revision;
    if (is != expected && expected != Bucket::kAny) return base::failure(Code::kAborted, "another revision");
    Bucket::KeyValue entry{key, value, ++w.revision_, erased};
    w.entries_[key] = {entry, w.now_};
    w.published(entry);
    return entry.revision;
  }
  // A request to another process, as those to the bucket.
  void ask(const std::string& address, std::string request, Then then) override {
    auto answered = std::make_shared<bool>(false);
    auto tell = [this, alive = env.alive(), answered, then](base::Result<std::string> answer) {
      if (!*alive) return;
      env.deliver([answered, then, answer] {
        if (!std::exchange(*answered, true)) then(answer);
      });
    };
    world.at(world.now_ + kPatience.count(), [tell] { tell(base::failure(Code::kUnavailable, "no answer")); });
    SimNode* to = world.node_at(address);
    if (!to || to == this) return;
    for (int i = 0, times = world.chance(world.faults_.twice) ? 2 : 1; i < times; ++i)
      world.send(*this, *to, [this, alive = env.alive(), to, request, tell] {
        to->answers.answer(request, [this, alive, to, tell](const std::string& answer) {
          if (*alive) world.send(*to, *this, [tell, answer] { tell(answer); });
        });
      });
  }
  std::vector<std::string> addresses() const {
    std::vector<std::string> out;
    for (const auto* node : membership.nodes()) out.push_back(node->address);
    return out;
  }
  // As SessionTable: what it has, it answers for while it has the lease.
  bool may_answer(const std::string& session) const { return membership.has_lease() && states.contains(session); }

  ClusterWorld& world;
  const size_t number;
  NodeEnv env;
  Direct direct;
  cluster::RelayedBucket bucket;
  Membership membership;
  Ownership ownership;
  cluster::PeerAnswers answers;
  std::map<std::string, std::string> states;  // of the sessions that it has
  std::set<std::string> writing;              // of those, whose turn is on its way to the bucket
  bool cut = false;                           // from the bucket
  bool apart = false;                         // from the other processes
};

}  // namespace weir::sim
