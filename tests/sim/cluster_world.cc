#include "cluster_world.h"

#include <algorithm>
#include <utility>

namespace weir::sim {

using base::Code;
using cluster::Bucket;
using cluster::Membership;
using cluster::Ownership;
using cluster::Record;

namespace {

constexpr int64_t kMs = 1'000'000, kSecond = 1000 * kMs;
constexpr int64_t kFaulty = 40 * kSecond, kCalm = 30 * kSecond;
constexpr int64_t kTimeout = 2 * kSecond;  // of a request to the bucket
constexpr int64_t kLife = 10 * kSecond;    // of a node's entry; longer than `bury`, as in production
constexpr size_t kTrace = 200;
constexpr double kRelease = 0.05;  // that a client comes to a node that drains

// As in production, but for how long a node goes on alone.
cluster::Rules rules() {
  cluster::Rules out;
  out.bury = std::chrono::seconds(7), out.alone = std::chrono::seconds(10);
  return out;
}

}  // namespace

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
  // What NATS carries.
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
        membership(env, bucket, rules(), "", described(std::move(name)), listener(), this),
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
    if (is != expected) return base::failure(Code::kAborted, "another revision");
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
  bool cut = false;                           // from the bucket
  bool apart = false;                         // from the other processes
};

ClusterWorld::ClusterWorld(uint64_t seed) : random_(seed * 0x9E3779B97F4A7C15u + 1) {
  constexpr Real kDelays[] = {kMs, 20 * kMs, 200 * kMs, 800 * kMs};
  faults_.delay = kDelays[draw(4)];
  auto maybe = [this](double most) { return chance(0.5) ? 0 : most * double(draw(1000)) / 1000; };
  faults_.slow = maybe(0.1), faults_.lost = maybe(0.2), faults_.twice = maybe(0.3);
  faults_.cut = maybe(0.3), faults_.stop = maybe(0.3), faults_.kill = maybe(0.15);
  faults_.drift = maybe(0.1), faults_.forget = maybe(0.05);
  faults_.apart = maybe(0.3), faults_.outage = maybe(0.15);
  relays_ = chance(0.7);
  for (size_t i = 0, n = 2 + draw(3); i < n; ++i) nodes_.emplace_back(), start(i);
  for (size_t i = 0, n = 1 + draw(3); i < n; ++i) sessions_.push_back("s" + std::to_string(i));
}

// Events of the queue must not find nodes that are gone.
ClusterWorld::~ClusterWorld() {
  for (auto& node : nodes_) node->env.kill();
}

ClusterWorld::Real ClusterWorld::delay() {
  if (healed_) return kMs;
  if (chance(faults_.slow)) return Real(draw(uint64_t(15 * kSecond)));
  return Real(draw(uint64_t(2 * faults_.delay))) + 1;
}

void ClusterWorld::at(Real when, std::function<void()> run) { queue_.push({when, ++events_, std::move(run)}); }

// Runs `arrive` at that process, if it comes there.
void ClusterWorld::send(SimNode& from, SimNode& to, std::function<void()> arrive) {
  if (from.apart || to.apart || chance(faults_.lost)) return;
  at(now_ + delay(), [alive = to.env.alive(), to = &to, arrive = std::move(arrive)] {
    if (*alive && !to->apart) to->env.deliver(arrive);
  });
}

ClusterWorld::SimNode* ClusterWorld::node_at(const std::string& address) const {
  for (const auto& node : nodes_)
    if (node && node->membership.self().address == address) return node.get();
  return nullptr;
}

void ClusterWorld::note(const std::string& what) {
  for (char c : what) hash_ = (hash_ ^ uint8_t(c)) * 1099511628211u;
  hash_ = (hash_ ^ uint64_t(now_)) * 1099511628211u;
  trace_.push_back(std::to_string(double(now_) / kSecond) + " " + what);
  if (trace_.size() > kTrace) trace_.pop_front();
}

// Node names are never used again, as ids that are drawn; but for every other one, as with cluster.name.
void ClusterWorld::start(size_t i) {
  const double rate = 1 + (chance(0.5) ? 1 : -1) * faults_.drift * double(draw(1000)) / 1000;
  const std::string name =
      i % 2 ? "n" + std::to_string(i) : "n" + std::to_string(i) + "-" + std::to_string(draw(1000000));
  nodes_[i] = std::make_unique<SimNode>(*this, i, rate, name);
  note("start " + name);
  connect(*nodes_[i]);
}

void ClusterWorld::connect(SimNode& node) {
  node.cut = false;
  node.env.deliver([&node] { node.membership.connected(); });
  for (const auto& [key, entry] : entries_)
    at(now_ + delay(), [this, alive = node.env.alive(), to = &node, entry = entry.first] {
      if (*alive && !to->cut) to->env.deliver([to, entry] { to->membership.on_entry(entry); });
    });
}

void ClusterWorld::published(const Bucket::KeyValue& entry) {
  if (!entry.key.starts_with(Membership::kPrefix)) return;
  for (auto& node : nodes_) {
    if (!node || node->cut) continue;
    for (int i = 0, times = chance(faults_.twice) ? 2 : 1; i < times; ++i)
      at(now_ + delay(), [alive = node->env.alive(), to = node.get(), entry] {
        if (*alive && !to->cut) to->env.deliver([to, entry] { to->membership.on_entry(entry); });
      });
  }
}

void ClusterWorld::expire() {
  std::erase_if(entries_, [this](const auto& one) {
    return one.first.starts_with(Membership::kPrefix) && now_ - one.second.second > kLife;
  });
}

void ClusterWorld::cut(SimNode& node) {
  node.cut = true;
  if (chance(0.7)) node.env.deliver([&node] { node.membership.disconnected(); });
}

// Of the bucket, for everybody, or nearly so.
void ClusterWorld::outage() {
  note("outage");
  for (auto& node : nodes_)
    if (chance(0.9)) cut(*node);
  at(now_ + Real(draw(uint64_t(15 * kSecond))), [this] {
    note("the outage is over");
    for (auto& node : nodes_)
      if (node->cut && chance(0.8)) connect(*node);
  });
}

void ClusterWorld::misfortune() {
  if (chance(faults_.forget)) {
    note("the bucket forgets the nodes");
    std::erase_if(entries_, [](const auto& one) { return one.first.starts_with(Membership::kPrefix); });
  }
  if (chance(faults_.outage)) outage();
  SimNode& node = *nodes_[draw(nodes_.size())];
  const std::string& id = node.membership.self().id;
  if (node.cut && chance(0.4)) {
    note("heal " + id);
    connect(node);
  } else if (chance(faults_.cut)) {
    note("cut " + id);
    cut(node);
  }
  if (chance(node.apart ? 0.3 : faults_.apart)) {
    node.apart = !node.apart;
    note((node.apart ? "apart " : "together ") + id);
  }
  if (chance(faults_.stop)) {
    note("stop " + id);
    node.env.stop_until(now_ + Real(draw(uint64_t(12 * kSecond))));
  }
  if (chance(faults_.kill)) {
    note("kill " + id);
    node.env.kill();
    start(node.number);
  }
}

void ClusterWorld::client() {
  SimNode& node = *nodes_[draw(nodes_.size())];
  const std::string session = sessions_[draw(sessions_.size())];
  if (node.env.stopped()) return;
  if (now_ < kFaulty && chance(kRelease) && node.ownership.owns(session)) {
    note(node.membership.self().id + " releases " + session);
    node.ownership.release(session, [](const base::Status&) {});
    if (!node.ownership.owns(session)) node.states.erase(session);
  }
  turn(node, session);
}

void ClusterWorld::turn(SimNode& node, const std::string& session) {
  if (node.may_answer(session) && node.ownership.owns(session)) return answer(node, session);
  auto told = acknowledged_.find(session);
  if (told == acknowledged_.end() && chance(0.5))
    return node.ownership.open(session, "", [this, &node, session](base::Status status) {
      if (!status.ok()) return;
      note(node.membership.self().id + " opens " + session);
      node.states.try_emplace(session);
    });
  const std::string before = told == acknowledged_.end() ? "" : told->second;
  node.ownership.take(session, [this, &node, session, before](base::Result<Record> taken) {
    if (!taken) {
      if (!before.empty() && taken.error().code == Code::kNotFound) broken_ = "an acknowledged session is lost";
      return;
    }
    ++taken_;
    note(node.membership.self().id + " takes " + session + ": " + taken->state);
    if (!taken->state.starts_with(before)) broken_ = "a session was taken without what was acknowledged";
    node.states[session] = taken->state;
    if (node.ownership.may_answer(session)) answer(node, session);
  });
}

void ClusterWorld::answer(SimNode& node, const std::string& session) {
  const std::string state = node.states[session] + std::to_string(++turns_) + ",";
  const std::string before = acknowledged_[session];
  node.ownership.commit(session, state, [this, &node, session, state, before](base::Status status) {
    if (status.code == Code::kAborted) node.states.erase(session);
    if (!status.ok()) return;
    if (!node.states[session].starts_with(state)) node.states[session] = state;
    if (!node.ownership.may_answer(session)) return;
    ++answered_;
    note(node.membership.self().id + " answers " + session + ": " + state);
    // Another client may have had a later turn answered that follows on this one.
    std::string& last = acknowledged_[session];
    if (!state.starts_with(before) || !(state.starts_with(last) || last.starts_with(state)))
      broken_ = "a turn was answered that does not follow on the last one";
    if (state.size() > last.size()) last = state;
  });
}

void ClusterWorld::check() {
  for (const auto& session : sessions_) {
    const SimNode* owner = nullptr;
    for (const auto& node : nodes_) {
      if (!node->may_answer(session)) continue;
      if (owner)
        broken_ = owner->membership.self().id + " and " + node->membership.self().id + " both answer for " + session;
      owner = node.get();
    }
  }
}

void ClusterWorld::step_until(Real end) {
  while (!queue_.empty() && queue_.top().when <= end && broken_.empty()) {
    auto run = std::move(const_cast<Event&>(queue_.top()).run);  // the order does not look at it
    now_ = std::max(now_, queue_.top().when);
    queue_.pop();
    run();
    check();
  }
  now_ = end;
}

std::string ClusterWorld::at_the_end() {
  for (const auto& node : nodes_)
    if (node->membership.nodes().size() != nodes_.size() - 1)
      return node->membership.self().id + " knows " + std::to_string(node->membership.nodes().size()) + " others of " +
             std::to_string(nodes_.size() - 1);
  for (const auto& [session, state] : acknowledged_) {
    size_t owners = 0;
    for (const auto& node : nodes_) owners += node->may_answer(session);
    if (!state.empty() && owners != 1) return session + " has " + std::to_string(owners) + " owners at the end";
  }
  return {};
}

std::string ClusterWorld::run() {
  for (Real when = 0; when < kFaulty + kCalm; when += 200 * kMs + Real(draw(uint64_t(300 * kMs))))
    at(when, [this] { client(); });
  for (Real when = kSecond; when < kFaulty; when += kSecond) at(when, [this] { misfortune(); });
  step_until(kFaulty);
  note("calm");
  healed_ = true;
  faults_ = {.delay = kMs};
  for (auto& node : nodes_) {
    node->env.stop_until(0);
    node->apart = false;
    if (node->cut) connect(*node);
  }
  step_until(kFaulty + kCalm);
  // A client that asks every node has its session.
  for (const auto& node : nodes_)
    for (const auto& session : sessions_) at(now_, [this, &node, &session] { turn(*node, session); });
  step_until(now_ + kSecond);
  return broken_.empty() ? at_the_end() : broken_;
}

}  // namespace weir::sim
