#include "cluster/membership.h"

#include <algorithm>
#include <utility>

namespace weir::cluster {

using base::Code;
using base::Status;
using Phase = Node::Phase;

Membership::Membership(base::Env& env, Bucket& bucket, Rules rules, std::string entry_key, Node self, Listener listener,
                       Peers* peers)
    : env_(env),
      bucket_(bucket),
      rules_(rules),
      entry_key_(std::move(entry_key)),
      self_(std::move(self)),
      listener_(std::move(listener)),
      others_(env, rules_, entry_key_, self_.id, table_listener()),
      fencing_(env, bucket, rules_, entry_key_, self_, others_, [this] { return reached_; }),
      promises_(
          env, peers, rules_,
          [this](const std::string& id) {
            const NodeTable::Seen* seen = others_.seen(id);
            return seen ? seen->node.address : std::string();
          },
          [this](base::Time until) {
            if (leaving_ || until <= lease_until_) return;
            lease_until_ = until;
            if (listener_.leased) listener_.leased(until);
          }) {
  outdo(0);
  uncertain_ = true;
}

Membership::~Membership() { env_.cancel(timer_); }

NodeTable::Listener Membership::table_listener() {
  NodeTable::Listener out;
  out.away = [this] { return away(); };
  out.changed = listener_.changed, out.left = listener_.left, out.refused = listener_.refused;
  out.joined = [this](const Node& node) {
    if (listener_.joined) listener_.joined(node);
    // Until the entry names it, it would wait as a stranger does.
    if (reached_ && others_.present() <= kMostFencers) beat_now();
  };
  return out;
}

// A node that was silent while the bucket was away has as long as everybody else to be seen.
void Membership::connected() {
  connected_ = true;
  uncertain_ = true;
  others_.restart_silence();
  env_.cancel(timer_);
  tick();
}

void Membership::disconnected() {
  connected_ = false;
  set_reached(false);
  if (listener_.changed) listener_.changed();
  if (timer_ != base::TimerId::kNone) beat_now();
}

// Silence while the bucket was away does not count.
void Membership::set_reached(bool reached) {
  if (reached && !reached_) others_.restart_silence();
  reached_ = reached;
}

void Membership::lost_bucket() {
  set_reached(false);
  promises_.ask(self_);
}

void Membership::arm() {
  timer_ = env_.at(env_.now() + rules_.beat, [this] { tick(); });
}

void Membership::tick() {
  arm();
  others_.tick();
  looked_ = false;
  fencing_.forget();
  if (!away()) fencing_.fence_silent();
  beat();
  if (!reached_) promises_.ask(self_);
}

// Where it names nobody whom it would have to name, everybody may fence it at once.
void Membership::name_fencers() {
  self_.fencers.clear();
  const auto others = others_.nodes();
  self_.alone = others.size() > kMostFencers ? base::Duration(0) : rules_.alone;
  if (self_.alone > base::Duration(0))
    for (const Node* other : others) self_.fencers.emplace_back(other->id, other->incarnation);
}

void Membership::beat_now() {
  if (!leaving_) beat();
}

void Membership::beat() {
  if (busy_ || leaving_) return;
  if (uncertain_) return look_at_own();
  busy_ = true;
  ++self_.beat;
  name_fencers();
  promises_.sent(self_);
  bucket_.write(
      NodeTable::key_of(self_.id), write_node(self_, entry_key_), revision_,
      [this, sent = env_.now()](base::Result<uint64_t> revision) { beat_written(sent, std::move(revision)); });
}

void Membership::beat_written(base::Time sent, base::Result<uint64_t> revision) {
  busy_ = false;
  if (leaving_) return;
  if (!revision) {
    uncertain_ = true;
    // Once for each beat: where somebody writes there again and again, the next try is the next beat's.
    if (revision.error().code == Code::kAborted && !std::exchange(looked_, true)) return look_at_own();
    if (revision.error().code == Code::kAborted) return;
    return lost_bucket();
  }
  set_reached(true);
  anothers_since_.reset(), told_anothers_ = false;
  promises_.taken(sent);
  revision_ = *revision, taken_beat_ = self_.beat;
  lease_until_ = std::max(lease_until_, sent + rules_.lease);
  if (listener_.leased) listener_.leased(lease_until_);
}

void Membership::look_at_own() {
  busy_ = true;
  bucket_.read(NodeTable::key_of(self_.id), [this](base::Result<Bucket::KeyValue> entry) {
    busy_ = false;
    if (!leaving_) own_entry(std::move(entry));
  });
}

// The lease is that of beats that are known to be taken; what is found here only says what to expect of the next one.
// An earlier beat than the last one that was taken has come late, to a bucket that had lost the entry, and perhaps the
// mark that this incarnation is over.
void Membership::own_entry(base::Result<Bucket::KeyValue> entry) {
  if (!entry && entry.error().code != Code::kNotFound) return lost_bucket();
  const bool first = self_.beat == 0;
  if (!entry || entry->erased) {
    if (!first) join_anew();
    revision_ = entry ? entry->revision : 0;
  } else {
    auto node = read_node(entry->value, entry_key_);
    const bool ours = node && node->incarnation == self_.incarnation && node->phase != Phase::kFenced &&
                      (entry->revision == revision_ || node->beat > taken_beat_);
    if (!ours) {
      const bool silent = others_.on_own_entry(*entry);
      // Another process has this name, or had it: until it is silent, the name is its.
      if (node && node->phase != Phase::kFenced && !silent) return name_is_anothers(*node);
      if (!first) join_anew();
      if (node) outdo(node->incarnation);
    }
    revision_ = entry->revision;
  }
  uncertain_ = false;
  beat();
}

// An entry that the process before this one has left is silent after `gone`.
void Membership::name_is_anothers(const Node& other) {
  if (!anothers_since_) anothers_since_ = env_.now();
  if (env_.now() - *anothers_since_ < 2 * rules_.gone || std::exchange(told_anothers_, true)) return;
  if (listener_.name_taken) listener_.name_taken(other);
}

void Membership::join_anew() {
  lease_until_ = {};
  outdo(self_.incarnation);
  promises_.over();
  self_.beat = 0, taken_beat_ = 0;
  if (listener_.fenced) listener_.fenced();
}

// Incarnations of one name grow, also where the bucket has forgotten the last one.
void Membership::outdo(uint64_t incarnation) {
  const int64_t wall = std::chrono::duration_cast<std::chrono::microseconds>(env_.wall().time_since_epoch()).count();
  self_.incarnation = std::max({self_.incarnation, incarnation + 1, uint64_t(std::max<int64_t>(wall, 1))});
}

void Membership::leave(std::function<void()> then) {
  leaving_ = true;
  lease_until_ = {};
  env_.cancel(timer_);
  if (!connected_ || uncertain_) return then();
  bucket_.erase(NodeTable::key_of(self_.id), revision_, [then = std::move(then)](base::Result<uint64_t>) { then(); });
}

}  // namespace weir::cluster
