#include "cluster/ownership.h"

#include <charconv>
#include <utility>

namespace weir::cluster {
namespace {

using base::Code;
using base::failure;
using base::Status;

constexpr std::string_view kSessionHead = "weir-session 1\nowner ", kTurn = "turn ", kRecordMac = "mac ";
constexpr size_t kMacDigits = 64;

std::string record_mac(std::string_view id, std::string_view key, std::string_view head, std::string_view tail) {
  std::string all(id);
  (all += '\n').append(head).append(tail);
  return mac_of(key, all);
}

// "12\n…": cut off.
bool read_number(std::string_view& text, uint64_t& out) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  text.remove_prefix(size_t(end - text.data()));
  if (error != std::errc() || !text.starts_with('\n')) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::string write_record(const Record& record, std::string_view id, std::string_view key) {
  std::string head = std::string(kSessionHead) + record.owner + ' ' + std::to_string(record.incarnation) + '\n' +
                     std::string(kTurn) + std::to_string(record.turn) + '\n';
  const std::string tail = '\n' + record.state;
  if (!key.empty()) head += std::string(kRecordMac) + record_mac(id, key, head, tail) + '\n';
  return head + tail;
}

base::Result<Record> read_record(std::string_view text, std::string_view id, std::string_view key) {
  const Status wrong = failure(Code::kDataLoss, "the session's record in the cluster's bucket cannot be read");
  const std::string_view whole = text;
  Record out;
  if (!text.starts_with(kSessionHead) || text.size() > Ownership::kLargestState + 512) return wrong;
  text.remove_prefix(kSessionHead.size());
  const size_t space = text.find(' ');
  if (space == text.npos || !good_name(text.substr(0, space))) return wrong;
  out.owner = text.substr(0, space);
  text.remove_prefix(space + 1);
  if (!read_number(text, out.incarnation) || !text.starts_with(kTurn)) return wrong;
  text.remove_prefix(kTurn.size());
  if (!read_number(text, out.turn)) return wrong;
  const std::string_view head = whole.substr(0, whole.size() - text.size());
  std::string_view mac;
  if (text.starts_with(kRecordMac) && text.size() > kRecordMac.size() + kMacDigits) {
    mac = text.substr(kRecordMac.size(), kMacDigits);
    text.remove_prefix(kRecordMac.size() + kMacDigits);
    if (!text.starts_with('\n')) return wrong;
    text.remove_prefix(1);
  }
  if (!text.starts_with('\n')) return wrong;
  if (!key.empty() && !same_mac(mac, record_mac(id, key, head, text)))
    return failure(Code::kDataLoss,
                   "the session's record in the cluster's bucket was written without cluster.secret, or with another");
  out.state = text.substr(1);
  return out;
}

Record Ownership::record(std::string state, uint64_t turn) const {
  const Node& self = membership_.self();
  return {self.id, self.incarnation, turn, std::move(state)};
}

std::string Ownership::owner_of(const std::string& id) const {
  auto found = owners_.find(id);
  return found == owners_.end() ? std::string() : found->second;
}

void Ownership::open(const std::string& id, std::string state, Done then) {
  if (state.size() > kLargestState)
    return then(failure(Code::kResourceExhausted, "the session is too long to be kept"));
  if (owned_.size() >= most_) return then(failure(Code::kResourceExhausted, "too many sessions are kept"));
  if (!membership_.has_lease()) return then(failure(Code::kUnavailable, "the bucket is away"));
  const uint64_t incarnation = membership_.self().incarnation;
  std::string value = write_record(record(std::move(state), 0), id, key_);
  bucket_.write(key_of(id), value, 0,
                [this, id, incarnation, value, release = releases_, then](base::Result<uint64_t> revision) {
                  if (!revision) {
                    if (revision.error().code != Code::kAborted) return then(revision.error());
                    return look_again(id, incarnation, value, 0, [then](Status s) {
                      then(s.code == Code::kAborted ? failure(Code::kAlreadyExists, "there is such a session") : s);
                    });
                  }
                  if (incarnation != membership_.self().incarnation)
                    return then(failure(Code::kUnavailable, "the node was fenced"));
                  if (released_since(id, release))
                    return then(failure(Code::kAlreadyExists, "the session was let go meanwhile"));
                  owned_.try_emplace(id, Owned{*revision, 0, false});
                  then({});
                });
}

void Ownership::take(const std::string& id, Taken then, Accept accept) {
  if (!membership_.has_lease()) return then(failure(Code::kUnavailable, "the bucket is away"));
  bucket_.read(key_of(id), [this, id, then = std::move(then), accept = std::move(accept)](
                               base::Result<Bucket::KeyValue> entry) { found(id, std::move(entry), then, accept); });
}

// A record that was read, or taken, before the last turn was written must not take its place when it comes late.
bool Ownership::is_old(const std::string& id, uint64_t revision) const {
  const auto owned = owned_.find(id);
  if (owned != owned_.end()) return owned->second.revision > revision;
  const auto last = uncertain_.find(id);
  return last != uncertain_.end() && last->second > revision;
}

void Ownership::found(const std::string& id, base::Result<Bucket::KeyValue> entry, Taken then, const Accept& accept) {
  if (!entry) return then(entry.error());
  if (entry->erased) return then(failure(Code::kNotFound, "there is no such session"));
  auto was = read_record(entry->value, id, key_);
  if (!was) return then(was.error());
  const Node& self = membership_.self();
  if (was->owner == self.id && was->incarnation == self.incarnation) {
    // A release that comes late must find another revision, and this may have been read before it came.
    if (released_.contains(id)) return write_taken(id, *was, entry->revision, then);
    // A write of this node whose answer was lost.
    auto known = owned_.find(id);
    if (is_old(id, entry->revision) || (known != owned_.end() && known->second.busy))
      return then(failure(Code::kUnavailable, "a turn is under way"));
    owned_[id] = {entry->revision, was->turn, false};
    return then(std::move(*was));
  }
  owned_.erase(id);
  if (owned_.size() >= most_) return then(failure(Code::kResourceExhausted, "too many sessions are kept"));
  membership_.fencing().fence(
      was->owner, was->incarnation,
      [this, id, record = *was, revision = entry->revision, then = std::move(then), accept](Status status) {
        if (status.ok() && accept) status = accept(record);
        if (status.ok()) return write_taken(id, record, revision, then);
        if (status.code == Code::kFailedPrecondition) {
          if (owners_.size() >= most_) owners_.clear();
          owners_[id] = record.owner;
        }
        then(status);
      });
}

void Ownership::write_taken(const std::string& id, Record was, uint64_t revision, Taken then) {
  if (!membership_.has_lease()) return then(failure(Code::kUnavailable, "the bucket is away"));
  Record now = record(was.state, was.turn);
  const uint64_t incarnation = now.incarnation;
  std::string value = write_record(now, id, key_);
  bucket_.write(key_of(id), value, revision,
                [this, id, incarnation, now, release = releases_, then](base::Result<uint64_t> written) {
                  if (!written || released_since(id, release) || is_old(id, *written))
                    return then(failure(Code::kUnavailable, "the session was written to meanwhile"));
                  if (incarnation != membership_.self().incarnation)
                    return then(failure(Code::kUnavailable, "the node was fenced"));
                  owned_[id] = {*written, now.turn, false};
                  released_.erase(id);
                  owners_.erase(id);
                  then(now);
                });
}

void Ownership::commit(const std::string& id, std::string state, Done then) {
  auto found = owned_.find(id);
  if (found == owned_.end()) return then(failure(Code::kAborted, "another node has the session"));
  Owned& owned = found->second;
  if (owned.busy) return then(failure(Code::kUnavailable, "a turn is under way"));
  if (state.size() > kLargestState)
    return then(failure(Code::kResourceExhausted, "the session is too long to be kept"));
  owned.busy = true;
  const uint64_t turn = owned.turn + 1, incarnation = membership_.self().incarnation;
  std::string value = write_record(record(std::move(state), turn), id, key_);
  bucket_.write(key_of(id), value, owned.revision,
                [this, id, incarnation, value, turn, then](base::Result<uint64_t> revision) {
                  if (!revision) return look_again(id, incarnation, value, turn, then);
                  auto still = owned_.find(id);
                  if (still == owned_.end() || incarnation != membership_.self().incarnation)
                    return then(failure(Code::kAborted, "another node has the session"));
                  still->second = {*revision, turn, false};
                  then({});
                });
}

// A write has failed, or may have: the record says which. Until it is known the session is not this node's.
void Ownership::look_again(const std::string& id, uint64_t incarnation, std::string value, uint64_t turn, Done then) {
  if (auto owned = owned_.extract(id)) {
    if (uncertain_.size() >= most_) uncertain_.clear();
    uncertain_[id] = owned.mapped().revision;
  }
  bucket_.read(
      key_of(id), [this, id, incarnation, value = std::move(value), turn, then](base::Result<Bucket::KeyValue> entry) {
        if (!entry && entry.error().code != Code::kNotFound) return then(entry.error());
        const bool ours = entry && !entry->erased && entry->value == value && !released_.contains(id);
        if (!ours || incarnation != membership_.self().incarnation)
          return then(failure(Code::kAborted, "another node has the session"));
        owned_.try_emplace(id, Owned{entry->revision, turn, false});  // or it was taken meanwhile, with this turn
        then({});
      });
}

std::vector<std::string> Ownership::owned() const {
  std::vector<std::string> out;
  out.reserve(owned_.size());
  for (const auto& [id, owned] : owned_) out.push_back(id);
  return out;
}

void Ownership::note_release(const std::string& id) {
  released_[id] = ++releases_;
  releases_in_order_.emplace_back(id, releases_);
  if (releases_in_order_.size() <= most_) return;
  auto oldest = released_.find(releases_in_order_.front().first);
  if (oldest != released_.end() && oldest->second == releases_in_order_.front().second) released_.erase(oldest);
  releases_in_order_.pop_front();
}

// It is not this node's before the record says so. A write that fails leaves it to the end of the node's entry.
void Ownership::release(const std::string& id, Done then) {
  auto found = owned_.find(id);
  if (found == owned_.end() || found->second.busy) return then(failure(Code::kUnavailable, "a turn is under way"));
  const uint64_t revision = found->second.revision;
  owned_.erase(found);
  note_release(id);
  bucket_.read(key_of(id), [this, id, revision, then = std::move(then)](base::Result<Bucket::KeyValue> entry) {
    if (!entry) return then(entry.error());
    auto record = read_record(entry->value, id, key_);
    if (!record || entry->revision != revision) return then(failure(Code::kAborted, "another node has the session"));
    record->incarnation = 0;
    bucket_.write(key_of(id), write_record(*record, id, key_), revision,
                  [then](base::Result<uint64_t> written) { then(written ? Status() : written.error()); });
  });
}

void Ownership::close(const std::string& id, Done then) {
  auto found = owned_.find(id);
  if (found == owned_.end()) return then(failure(Code::kAborted, "another node has the session"));
  const uint64_t revision = found->second.revision;
  owned_.erase(found);
  bucket_.erase(key_of(id), revision,
                [then](base::Result<uint64_t> erased) { then(erased ? Status() : erased.error()); });
}

}  // namespace weir::cluster
