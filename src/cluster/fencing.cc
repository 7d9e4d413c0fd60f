#include "cluster/fencing.h"

#include <algorithm>
#include <vector>

namespace weir::cluster {

using base::Code;
using base::failure;
using base::Status;
using Phase = Node::Phase;

// The entry is read anew: what has been watched may be from before that incarnation. A node has its first beat taken
// before it owns anything, so that what is read now is of that incarnation, or of what came after it.
void Fencing::fence(const std::string& id, uint64_t incarnation, Done then) {
  if (id == self_.id)
    return then(incarnation == self_.incarnation ? failure(Code::kFailedPrecondition, "it is this node") : Status());
  if (incarnation == 0) return then({});  // its owner has let it go
  if (!reached_()) return then(failure(Code::kUnavailable, "the bucket is away"));
  bucket_.read(NodeTable::key_of(id),
               [this, id, incarnation, then = std::move(then)](base::Result<Bucket::KeyValue> entry) {
                 read(id, incarnation, std::move(entry), then);
               });
}

void Fencing::read(const std::string& id, uint64_t incarnation, base::Result<Bucket::KeyValue> entry,
                   const Done& then) {
  if (!entry && entry.error().code != Code::kNotFound) return then(entry.error());
  if (!reached_()) return then(failure(Code::kUnavailable, "the bucket is away"));
  if (entry) table_.on_entry(*entry);
  if (entry && entry->erased) return then({});  // it has left
  const NodeTable::Seen* found = table_.seen(id);
  if (!found || (!entry && found->revision > 0)) found = table_.see_absent(id);
  if (!found) return then(failure(Code::kUnavailable, "too many nodes are missed"));
  const NodeTable::Seen& seen = *found;
  const bool over = seen.node.incarnation > incarnation ||
                    (seen.node.incarnation == incarnation && (!seen.there || seen.node.phase == Phase::kFenced));
  const bool long_over = seen.node.incarnation > incarnation ||
                         (seen.node.incarnation == incarnation && seen.node.phase == Phase::kFenced);
  if ((entry && over) || long_over) return then({});
  if (!has_entry_of(seen, incarnation)) table_.miss(id, incarnation);
  if (may_fence(seen, incarnation)) return write(id, incarnation, then);
  then(seen.present ? failure(Code::kFailedPrecondition, "the node is there")
                    : failure(Code::kUnavailable, "the node may still be there"));
}

// A node that goes on without the bucket asks those that it has named; the others wait until it does not.
bool Fencing::may_fence(const NodeTable::Seen& seen, uint64_t incarnation) const {
  if (!reached_()) return false;
  if (!has_entry_of(seen, incarnation))
    return seen.missed >= incarnation &&
           env_.now() - seen.missed_since >= rules_.stranger(std::max(rules_.alone, seen.node.alone));
  const auto& named = seen.node.fencers;
  const bool asked = std::find(named.begin(), named.end(), std::pair(self_.id, self_.incarnation)) != named.end();
  return env_.now() - seen.since >= (asked ? rules_.gone : rules_.stranger(seen.node.alone));
}

void Fencing::forget() {
  std::erase_if(late_, [this](const auto& one) { return one.second.under_way == 0 && !table_.seen(one.first); });
}

// One of those that could does it, more or less.
void Fencing::fence_silent() {
  if (env_.random() % (table_.present() + 1) != 0) return;
  std::vector<std::pair<std::string, uint64_t>> silent;
  for (const auto* seen : table_.silent_for(rules_.fence_after))
    if (may_fence(*seen, seen->node.incarnation)) silent.emplace_back(seen->node.id, seen->node.incarnation);
  for (const auto& [id, incarnation] : silent) write(id, incarnation, [](const Status&) {});
}

bool Fencing::may_come(const Late& late, const NodeTable::Seen& seen, uint64_t incarnation) {
  return late.under_way > 0 || (late.revision > 0 && late.revision >= seen.revision) || late.absent >= incarnation;
}

base::Result<uint64_t> Fencing::promise(const std::string& id, uint64_t incarnation) const {
  auto refused = [](const char* why) { return failure(Code::kFailedPrecondition, why); };
  if (reached_()) return refused("this node reaches the bucket");
  const NodeTable::Seen* seen = table_.seen(id);
  if (!seen || !seen->there) return refused("that node is not known");
  if (seen->node.incarnation != incarnation || seen->node.phase == Phase::kFenced)
    return refused("that incarnation is over");
  auto late = late_.find(id);
  if (late != late_.end() && may_come(late->second, *seen, incarnation)) return refused("that node is being fenced");
  return self_.incarnation;
}

void Fencing::write(const std::string& id, uint64_t incarnation, Done then) {
  const NodeTable::Seen& seen = *table_.seen(id);
  Node mark;
  mark.id = id, mark.phase = Phase::kFenced;
  mark.incarnation = std::max(incarnation, seen.node.incarnation);
  std::string value = write_node(mark, entry_key_);
  const uint64_t expected = seen.revision;
  ++late_[id].under_way;
  // A write that fails means that the node has been seen since, or that somebody else was faster: the next try reads
  // what is there.
  bucket_.write(
      NodeTable::key_of(id), value, expected,
      [this, id, value, expected, marked = mark.incarnation, then = std::move(then)](base::Result<uint64_t> revision) {
        Late& late = late_[id];
        --late.under_way;
        if (!revision && revision.error().code == Code::kUnavailable) {
          uint64_t& lost = expected > 0 ? late.revision : late.absent;
          lost = std::max(lost, expected > 0 ? expected : marked);
        }
        if (revision) return table_.on_entry({NodeTable::key_of(id), value, *revision, false}), then({});
        then(failure(Code::kUnavailable, "the node may still be there"));
      });
}

}  // namespace weir::cluster
