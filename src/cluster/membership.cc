#include "cluster/membership.h"

#include <algorithm>
#include <utility>

namespace weir::cluster {

using base::Code;
using base::Status;
using Phase = Node::Phase;

namespace {

// How many of them have an entry.
template <class SeenMap>
size_t there_of(const SeenMap& seen) {
  return size_t(std::count_if(seen.begin(), seen.end(), [](const auto& one) { return one.second.there; }));
}

}  // namespace

Membership::Membership(base::Env& env, Bucket& bucket, Rules rules, std::string entry_key, Node self, Listener listener,
                       Peers* peers)
    : env_(env),
      bucket_(bucket),
      rules_(rules),
      entry_key_(std::move(entry_key)),
      self_(std::move(self)),
      listener_(std::move(listener)),
      promises_(
          env, peers, rules_,
          [this](const std::string& id) {
            auto found = seen_.find(id);
            return found == seen_.end() ? std::string() : found->second.node.address;
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

// A node that was silent while the bucket was away has as long as everybody else to be seen.
void Membership::connected() {
  connected_ = true;
  uncertain_ = true;
  for (auto& [id, seen] : seen_) seen.since = env_.now();
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
  if (reached && !reached_)
    for (auto& [id, seen] : seen_) seen.since = env_.now();
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
  for (auto& [id, seen] : seen_) update(seen);
  looked_ = false;
  forget_silent();
  fence_silent();
  beat();
  if (!reached_) promises_.ask(self_);
}

// Whoever is not fenced may have to be: how long it has been silent is not forgotten before, what it served is.
void Membership::forget_silent() {
  for (auto it = seen_.begin(); it != seen_.end();) {
    Seen& seen = it->second;
    const base::Duration silent_for = env_.now() - seen.since, long_gone = 20 * rules_.gone;
    const bool fenced = seen.there && seen.node.phase == Phase::kFenced;
    if (!seen.present && silent_for > long_gone) models_ -= std::exchange(seen.node.models, {}).size();
    const bool over = !seen.present && silent_for > long_gone &&
                      (fenced || silent_for > long_gone + 2 * rules_.stranger(rules_.alone));
    it = over ? seen_.erase(it) : std::next(it);
  }
}

// One of those that could does it, more or less.
void Membership::fence_silent() {
  if (away() || env_.random() % (nodes().size() + 1) != 0) return;
  std::vector<std::string> silent_ones;
  for (const auto& [id, seen] : seen_)
    if (seen.there && seen.node.phase != Phase::kFenced && env_.now() - seen.since >= rules_.fence_after &&
        may_fence(seen))
      silent_ones.push_back(id);
  for (const auto& id : silent_ones) write_fence(id, seen_[id].node.incarnation, [](const Status&) {});
}

// Where it names nobody whom it would have to name, everybody may fence it at once.
void Membership::name_fencers() {
  self_.fencers.clear();
  const auto others = nodes();
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
      key_of(self_.id), write_node(self_, entry_key_), revision_,
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
  promises_.taken(sent);
  revision_ = *revision, taken_beat_ = self_.beat;
  lease_until_ = std::max(lease_until_, sent + rules_.lease);
  if (listener_.leased) listener_.leased(lease_until_);
}

void Membership::look_at_own() {
  busy_ = true;
  bucket_.read(key_of(self_.id), [this](base::Result<Bucket::KeyValue> entry) {
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
      Seen& seen = seen_[self_.id];
      take(*entry, seen);
      // Another process has this name, or had it: until it is silent, the name is its.
      if (node && node->phase != Phase::kFenced && !silent(seen)) return;
      if (!first) join_anew();
      if (node) outdo(node->incarnation);
    }
    revision_ = entry->revision;
  }
  uncertain_ = false;
  beat();
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
  bucket_.erase(key_of(self_.id), revision_, [then = std::move(then)](base::Result<uint64_t>) { then(); });
}

// An entry of a node that is not known takes a place only once it is taken: whoever floods the bucket takes none.
void Membership::on_entry(const Bucket::KeyValue& entry) {
  if (!entry.key.starts_with(kPrefix)) return;
  const std::string id = entry.key.substr(kPrefix.size());
  if (!good_name(id) || id == self_.id) return;
  auto found = seen_.find(id);
  if (found == seen_.end()) {
    Seen fresh;
    fresh.since = env_.now();
    if (entry.erased || !take(entry, fresh)) return;
    found = seen_.emplace(id, std::move(fresh)).first;
    return update(found->second);
  }
  const Node before = found->second.node;
  if (!take(entry, found->second)) return;
  const Node& now = found->second.node;
  update(found->second);
  const bool same = now.phase == before.phase && now.address == before.address && now.models == before.models;
  if (found->second.present && !same && listener_.changed) listener_.changed();
}

// Errors say why it is not taken.
base::Result<Node> Membership::read(const Bucket::KeyValue& entry, const Seen& seen) const {
  if (entry.value.empty()) return base::invalid("empty, or more than " + std::to_string(kLargestNode) + " bytes");
  auto node = read_node(entry.value, entry_key_);
  if (!node) return node;
  if (node->id != entry.key.substr(kPrefix.size()))
    return base::invalid("it is the entry of another node, '" + node->id + "'");
  if (node->phase == Phase::kFenced) return node;
  const bool older = node->incarnation == seen.node.incarnation
                         ? seen.there && node->beat < seen.node.beat
                         : seen.present && node->incarnation < seen.node.incarnation;
  if (older) return base::invalid("an older beat of it was written again");
  const bool more = seen_.size() >= rules_.most_nodes && !seen.there && node->id != self_.id;
  if (more && (there_of(seen_) >= rules_.most_nodes || (seen.revision == 0 && seen_.size() >= 2 * rules_.most_nodes)))
    return base::invalid("there are " + std::to_string(rules_.most_nodes) + " nodes already");
  if (models_ - seen.node.models.size() + node->models.size() > rules_.most_models)
    return base::invalid("the nodes have more than " + std::to_string(rules_.most_models) + " models");
  return node;
}

// A bucket in memory that is made anew counts its revisions from 1, and then every node joins anew.
bool Membership::is_of_later_life(const Bucket::KeyValue& entry, const Seen& seen) const {
  auto node = read_node(entry.value, entry_key_);
  return node && node->id == seen.node.id && node->incarnation > seen.node.incarnation;
}

// False: it says nothing new.
bool Membership::take(const Bucket::KeyValue& entry, Seen& seen) {
  if (entry.revision <= seen.revision && (entry.erased || !is_of_later_life(entry, seen))) return false;
  if (entry.erased) {
    seen.revision = entry.revision, seen.since = env_.now(), seen.there = false;
    return true;
  }
  auto node = read(entry, seen);
  if (!node) {
    ++refused_;
    const bool tell = complained_.size() < kMostComplaints && complained_.insert(entry.key).second;
    if (tell && listener_.refused) listener_.refused(entry.key, node.error().text);
    return false;
  }
  complained_.erase(entry.key);
  models_ = models_ - seen.node.models.size() + node->models.size();
  seen.revision = entry.revision, seen.since = env_.now(), seen.there = true;
  seen.node = std::move(*node);
  // A write that expects none may come whenever the entry's time is over.
  if (auto late = fencing_.find(seen.node.id);
      late != fencing_.end() && late->second > 0 && late->second < seen.revision)
    fencing_.erase(late);
  return true;
}

void Membership::update(Seen& seen) {
  if (seen.node.id == self_.id) return;
  const bool present = seen.there && seen.node.phase != Phase::kFenced && (!silent(seen) || (away() && seen.present));
  const bool was = std::exchange(seen.present, present);
  if (present && !was && listener_.joined) listener_.joined(seen.node);
  if (!present && was && listener_.left) listener_.left(seen.node);
  if (present != was && listener_.changed) listener_.changed();
  // Until the entry names it, it would wait as a stranger does.
  if (present && !was && reached_ && nodes().size() <= kMostFencers) beat_now();
}

std::vector<const Node*> Membership::nodes() const {
  std::vector<const Node*> out;
  for (const auto& [id, seen] : seen_)
    if (seen.present) out.push_back(&seen.node);
  return out;
}

const Node* Membership::find(const std::string& id) const {
  auto found = seen_.find(id);
  return found != seen_.end() && found->second.present ? &found->second.node : nullptr;
}

// The entry is read anew: what has been watched may be from before that incarnation. A node has its first beat taken
// before it owns anything, so that what is read now is of that incarnation, or of what came after it.
void Membership::fence(const std::string& id, uint64_t incarnation, std::function<void(Status)> then) {
  if (id == self_.id)
    return then(incarnation == self_.incarnation ? base::failure(Code::kFailedPrecondition, "it is this node")
                                                 : Status());
  if (incarnation == 0) return then({});  // its owner has let it go
  if (!reached_) return then(base::failure(Code::kUnavailable, "the bucket is away"));
  bucket_.read(key_of(id), [this, id, incarnation, then = std::move(then)](base::Result<Bucket::KeyValue> entry) {
    if (!entry && entry.error().code != Code::kNotFound) return then(entry.error());
    if (!reached_) return then(base::failure(Code::kUnavailable, "the bucket is away"));
    if (entry) on_entry(*entry);
    if (entry && entry->erased) return then({});  // it has left
    auto found = seen_.find(id);
    const bool room = seen_.size() < rules_.most_nodes || seen_.size() - there_of(seen_) < rules_.most_nodes;
    if (found == seen_.end() && !room) return then(base::failure(Code::kUnavailable, "too many nodes are missed"));
    if (found == seen_.end() || (!entry && found->second.revision > 0)) found = see_absent(id);
    const Seen& seen = found->second;
    const bool over = seen.node.incarnation > incarnation ||
                      (seen.node.incarnation == incarnation && (!seen.there || seen.node.phase == Phase::kFenced));
    const bool long_over = seen.node.incarnation > incarnation ||
                           (seen.node.incarnation == incarnation && seen.node.phase == Phase::kFenced);
    if ((entry && over) || long_over) return then({});
    if (may_fence(seen)) return write_fence(id, incarnation, then);
    then(seen.present ? base::failure(Code::kFailedPrecondition, "the node is there")
                      : base::failure(Code::kUnavailable, "the node may still be there"));
  });
}

// A node that goes on without the bucket asks those that it has named; the others wait until it does not.
bool Membership::may_fence(const Seen& seen) const {
  const base::Duration alone = seen.there ? seen.node.alone : std::max(rules_.alone, seen.node.alone);
  const auto& named = seen.node.fencers;
  const bool asked =
      seen.there && std::find(named.begin(), named.end(), std::pair(self_.id, self_.incarnation)) != named.end();
  return reached_ && env_.now() - seen.since >= (asked ? rules_.gone : rules_.stranger(alone));
}

base::Result<uint64_t> Membership::promise(const std::string& id, uint64_t incarnation) const {
  auto refused = [](const char* why) { return base::failure(Code::kFailedPrecondition, why); };
  if (reached_) return refused("this node reaches the bucket");
  auto found = seen_.find(id);
  if (found == seen_.end() || !found->second.there) return refused("that node is not known");
  const Node& node = found->second.node;
  if (node.incarnation != incarnation || node.phase == Phase::kFenced) return refused("that incarnation is over");
  if (fencing_.contains(id)) return refused("that node is being fenced");
  return self_.incarnation;
}

void Membership::write_fence(const std::string& id, uint64_t incarnation, std::function<void(Status)> then) {
  Node mark;
  mark.id = id, mark.phase = Phase::kFenced;
  mark.incarnation = std::max(incarnation, seen_[id].node.incarnation);
  std::string value = write_node(mark, entry_key_);
  const uint64_t expected = seen_[id].revision;
  fencing_[id] = expected;
  // A write that fails means that the node has been seen since, or that somebody else was faster: the next try reads
  // what is there.
  bucket_.write(key_of(id), value, expected,
                [this, id, value, then = std::move(then)](base::Result<uint64_t> revision) {
                  if (revision || revision.error().code != Code::kUnavailable) fencing_.erase(id);
                  if (revision) return on_entry({key_of(id), value, *revision, false}), then({});
                  then(base::failure(Code::kUnavailable, "the node may still be there"));
                });
}

// Its time in the bucket was over, or it was never there. Its writer may know better, so that it has as long as one
// that was seen now.
Membership::SeenMap::iterator Membership::see_absent(const std::string& id) {
  auto [found, made] = seen_.try_emplace(id);
  Seen& seen = found->second;
  seen.node.id = id;
  seen.revision = 0, seen.there = false, seen.since = env_.now();
  update(seen);
  return found;
}

}  // namespace weir::cluster
