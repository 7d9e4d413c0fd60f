#include "cluster_world.h"

#include <algorithm>
#include <utility>

#include "cluster_process.h"

namespace weir::sim {

namespace {

constexpr int64_t kFaulty = 40 * kSecond, kCalm = 30 * kSecond;
constexpr int64_t kLife = 10 * kSecond;  // of a node's entry; longer than `fence_after`, as in production
constexpr size_t kClusterTrace = 200;
constexpr double kRelease = 0.05;  // that a client comes to a node that drains

}  // namespace

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
  if (trace_.size() > kClusterTrace) trace_.pop_front();
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
    at(now_ + delay(), [alive = node.env.alive(), to = &node, entry = entry.first] {
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

// Nobody reaches the bucket, or nearly nobody.
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
  if (node.writing.contains(session)) return;
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
    if (node.writing.contains(session)) return;
    ++taken_;
    note(node.membership.self().id + " takes " + session + ": " + taken->state);
    if (!taken->state.starts_with(before)) broken_ = "a session was taken without what was acknowledged";
    node.states[session] = taken->state;
    if (node.ownership.may_answer(session)) answer(node, session);
  });
}

// As in KeptSessions, one turn of a session is written at a time, and what is taken meanwhile does not count.
void ClusterWorld::answer(SimNode& node, const std::string& session) {
  const std::string state = node.states[session] + std::to_string(++turns_) + ",";
  const std::string before = acknowledged_[session];
  node.writing.insert(session);
  node.ownership.commit(session, state, [this, &node, session, state, before](base::Status status) {
    node.writing.erase(session);
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
