#include "cluster/node_table.h"

#include <iterator>
#include <utility>

namespace weir::cluster {

using base::invalid;
using Phase = Node::Phase;

namespace {

// A beat that came late, or twice, to a bucket that had lost the entry. It is no sign of life, and what is there has to
// be expected by whoever fences the node.
bool is_older_beat(const Node& node, const NodeTable::Seen& seen) {
  return seen.there && node.phase != Phase::kFenced && node.incarnation == seen.node.incarnation &&
         node.beat < seen.node.beat;
}

}  // namespace

// An entry of a node that is not known takes a place only once it is taken: whoever floods the bucket takes none.
void NodeTable::on_entry(const Bucket::KeyValue& entry) {
  if (!entry.key.starts_with(kPrefix)) return;
  const std::string id = entry.key.substr(kPrefix.size());
  if (!good_name(id) || id == self_) return;
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

bool NodeTable::on_own_entry(const Bucket::KeyValue& entry) {
  Seen& seen = seen_[self_];
  take(entry, seen);
  return env_.now() - seen.since >= rules_.gone;
}

const NodeTable::Seen* NodeTable::see_absent(const std::string& id) {
  const bool room = seen_.size() < rules_.most_nodes || seen_.size() - there_ < rules_.most_nodes;
  if (!room && !seen_.contains(id)) return nullptr;
  Seen& seen = seen_[id];
  seen.node.id = id;
  set_entry(seen, 0, State::kAbsent);
  seen.since = env_.now();
  update(seen);
  return &seen;
}

void NodeTable::miss(const std::string& id, uint64_t incarnation) {
  auto found = seen_.find(id);
  if (found == seen_.end() || found->second.missed >= incarnation) return;
  found->second.missed = incarnation;
  found->second.missed_since = env_.now();
}

void NodeTable::restart_silence() {
  for (auto& [id, seen] : seen_) seen.since = seen.missed_since = env_.now();
}

// Whoever is not fenced may have to be: how long it has been silent is not forgotten before, what it served is.
void NodeTable::tick() {
  for (auto& [id, seen] : seen_) update(seen);
  for (auto it = seen_.begin(); it != seen_.end();) {
    Seen& seen = it->second;
    const base::Duration silent_for = env_.now() - seen.since, long_gone = 20 * rules_.gone;
    const bool fenced = seen.there && seen.node.phase == Phase::kFenced;
    if (!seen.present && silent_for > long_gone) models_ -= std::exchange(seen.node.models, {}).size();
    const bool over = !seen.present && silent_for > long_gone &&
                      (fenced || silent_for > long_gone + 2 * rules_.stranger(rules_.alone));
    if (over) set_entry(seen, 0, State::kAbsent);
    it = over ? seen_.erase(it) : std::next(it);
  }
}

bool NodeTable::has_room_for(const Seen& seen) const {
  if (seen_.size() < rules_.most_nodes || seen.there) return true;
  return there_ < rules_.most_nodes && (seen.revision > 0 || seen_.size() < 2 * rules_.most_nodes);
}

// Errors say why it is not taken.
base::Result<Node> NodeTable::read(const Bucket::KeyValue& entry, const Seen& seen) const {
  if (entry.value.empty()) return invalid("empty, or more than " + std::to_string(kLargestNode) + " bytes");
  auto node = read_node(entry.value, entry_key_);
  if (!node) return node;
  if (node->id != entry.key.substr(kPrefix.size()))
    return invalid("it is the entry of another node, '" + node->id + "'");
  if (node->phase == Phase::kFenced) return node;
  const bool older = node->incarnation == seen.node.incarnation
                         ? is_older_beat(*node, seen)
                         : seen.present && node->incarnation < seen.node.incarnation;
  if (older) return invalid("an older beat of it was written again");
  if (node->id != self_ && !has_room_for(seen))
    return invalid("there are " + std::to_string(rules_.most_nodes) + " nodes already");
  if (models_ - seen.node.models.size() + node->models.size() > rules_.most_models)
    return invalid("the nodes have more than " + std::to_string(rules_.most_models) + " models");
  return node;
}

// A bucket in memory that is made anew counts its revisions from 1, and then every node joins anew.
bool NodeTable::is_of_later_life(const Bucket::KeyValue& entry, const Seen& seen) const {
  auto node = read_node(entry.value, entry_key_);
  return node && node->id == seen.node.id && node->incarnation > seen.node.incarnation;
}

void NodeTable::set_entry(Seen& seen, uint64_t revision, State state) {
  const bool there = state == State::kThere;
  there_ = there_ - size_t(seen.there) + size_t(there);
  seen.revision = revision, seen.there = there;
}

// False: it says nothing new.
bool NodeTable::take(const Bucket::KeyValue& entry, Seen& seen) {
  if (entry.revision <= seen.revision && (entry.erased || !is_of_later_life(entry, seen))) return false;
  if (entry.erased) {
    set_entry(seen, entry.revision, State::kAbsent);
    seen.since = env_.now();
    return true;
  }
  auto node = read(entry, seen);
  if (!node) {
    auto late = read_node(entry.value, entry_key_);
    if (late && late->id == seen.node.id && is_older_beat(*late, seen)) seen.revision = entry.revision;
    return refuse(entry.key, node.error()), false;
  }
  complained_.erase(entry.key);
  models_ = models_ - seen.node.models.size() + node->models.size();
  set_entry(seen, entry.revision, State::kThere);
  seen.since = env_.now();
  seen.node = std::move(*node);
  if (seen.node.phase != Phase::kFenced && seen.node.incarnation >= seen.missed) seen.missed = 0;
  return true;
}

void NodeTable::refuse(const std::string& key, const base::Status& why) {
  ++refused_;
  const bool tell = complained_.size() < kMostComplaints && complained_.insert(key).second;
  if (tell && listener_.refused) listener_.refused(key, why.text);
}

void NodeTable::update(Seen& seen) {
  if (seen.node.id == self_) return;
  const bool silent = env_.now() - seen.since >= rules_.gone;
  const bool present =
      seen.there && seen.node.phase != Phase::kFenced && (!silent || (seen.present && listener_.away()));
  if (present == seen.present) return;
  seen.present = present;
  present_ = present ? present_ + 1 : present_ - 1;
  if (listener_.changed) listener_.changed();
  const auto& news = present ? listener_.joined : listener_.left;
  if (news) news(seen.node);
}

std::vector<const Node*> NodeTable::nodes() const {
  std::vector<const Node*> out;
  out.reserve(present_);
  for (const auto& [id, seen] : seen_)
    if (seen.present) out.push_back(&seen.node);
  return out;
}

std::vector<const Node*> NodeTable::tell() {
  for (auto& [id, seen] : seen_) seen.told = seen.present && !seen.node.address.empty();
  return nodes();
}

bool NodeTable::told(const std::string& id) const {
  auto found = seen_.find(id);
  return found != seen_.end() && found->second.told;
}

const Node* NodeTable::find(const std::string& id) const {
  auto found = seen_.find(id);
  return found != seen_.end() && found->second.present ? &found->second.node : nullptr;
}

const NodeTable::Seen* NodeTable::seen(const std::string& id) const {
  auto found = seen_.find(id);
  return found == seen_.end() ? nullptr : &found->second;
}

std::vector<const NodeTable::Seen*> NodeTable::silent_for(base::Duration time) const {
  std::vector<const Seen*> out;
  for (const auto& [id, seen] : seen_)
    if (seen.there && seen.node.phase != Phase::kFenced && env_.now() - seen.since >= time) out.push_back(&seen);
  return out;
}

}  // namespace weir::cluster
