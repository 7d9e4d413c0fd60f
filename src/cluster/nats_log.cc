#include "cluster/nats_log.h"

#include <algorithm>
#include <utility>

#include "cluster/log_message.h"
#include "cluster/nats_stream.h"

namespace weir::cluster {

using base::Code;
using base::failure;
using base::Result;
using base::Status;

namespace {

// Identities are the times at which streams were made, in decimal.
bool is_behind_one(const NatsLog::Copy& copy, std::string_view identity, uint64_t sequence) {
  if (identity == copy.identity) return sequence > copy.sequence;
  return std::pair(identity.size(), identity) > std::pair(copy.identity.size(), std::string_view(copy.identity));
}

}  // namespace

struct NatsLog::Parts {
  Parts(Options o, std::function<void()> news)
      : options(std::move(o)), stream({options.url, options.name, options.node, options.most_bytes}, std::move(news)) {}

  const Options options;
  NatsStream stream;
  const std::string entries = stream.subject("entry"), part = stream.subject("part"),
                    snapshots = stream.subject("snapshot"), copies = stream.subject("copy");

  Seal seal() const { return {options.key, stream.known().identity}; }
  std::string_view unseal(const NatsStream::Message& message, LogMessage kind) const {
    return unseal_message(seal(), kind, message.bytes);
  }
  size_t part_size() const { return std::min(kPart, stream.longest() / 2); }
  // Parts that a list in one message can name, beside its own MAC and what NATS' headers take.
  size_t parts_in_list() const { return stream.longest() <= kHeads ? 0 : (stream.longest() - kHeads) / kListed; }
  size_t most_of_entry() const { return part_size() * std::max<size_t>(1, std::min(kMostParts, parts_in_list())); }
  Result<PartList> write_parts(std::string_view bytes);
  Result<std::string> read_parts(const PartList& list);
  Result<std::string> content(const NatsStream::Message& message, bool& gap);
  Result<std::optional<Snapshot>> read_snapshot(const NatsStream::Message& message);
  Status look_for_snapshots();
  Result<std::string> snapshot_message(const Snapshot& snapshot);
  Status publish_snapshot(uint64_t sequence, const std::string& message);

  static constexpr size_t kHeads = 512, kListed = 40;  // bytes
  static constexpr uint64_t kLooksAtOnce = 256, kMostCopies = 1024;
  NatsStream::Known looked;        // where `snapshots` were looked at
  uint64_t seen = 0;               // the last message of them that was
  std::optional<Snapshot> newest;  // of those
};

NatsLog::NatsLog(Options options, std::function<void()> news)
    : parts_(std::make_unique<Parts>(std::move(options), std::move(news))) {}

NatsLog::~NatsLog() { stop(); }

bool NatsLog::connected() const { return parts_->stream.connected(); }
Status NatsLog::start() { return parts_->stream.start(); }
void NatsLog::stop() { parts_->stream.stop(); }

Result<uint64_t> NatsLog::append(std::string_view id, std::string_view bytes) {
  Parts& p = *parts_;
  if (bytes.size() > kLargest) return failure(Code::kResourceExhausted, "that is too long for the jobs' log");
  if (Status s = p.stream.open(); !s.ok()) return s;
  std::string message;
  uint64_t first = UINT64_MAX;  // of its parts
  if (bytes.size() <= p.part_size()) {
    message = seal_message(p.seal(), LogMessage::kInline, bytes);
  } else if (bytes.size() > p.most_of_entry()) {
    return failure(Code::kResourceExhausted, "that is too long for messages of the NATS server (max_payload)");
  } else {
    auto list = p.write_parts(bytes);
    if (!list) return list.error();
    first = list->parts[0].sequence;
    message = seal_message(p.seal(), LogMessage::kInParts, write_list(*list));
  }
  auto sequence = p.stream.publish(p.entries, id, message);
  if (sequence) p.stream.tell();
  // One that came before is behind these parts: it has its own.
  if (sequence && *sequence > first && *sequence - first > kMostPartsBack)
    return failure(Code::kAborted, "others have written too much to the jobs' log meanwhile");
  return sequence;
}

Result<PartList> NatsLog::Parts::write_parts(std::string_view bytes) {
  PartList list{bytes.size(), {}};
  const size_t size = part_size();
  for (size_t at = 0; at < bytes.size(); at += size) {
    const std::string_view one = bytes.substr(at, size);
    auto sequence = stream.publish(part, {}, one);
    if (!sequence) return sequence.error();
    list.parts.push_back({*sequence, digest_of(one)});
  }
  return list;
}

// Empty: some of them are gone, or are not those that were written.
Result<std::string> NatsLog::Parts::read_parts(const PartList& list) {
  std::string out;
  for (const PartList::Part& one : list.parts) {
    auto message = stream.get(one.sequence);
    if (!message) return message.error();
    if (!*message || (*message)->subject != part || digest_of((*message)->bytes) != one.digest) return std::string();
    if (out.size() + (*message)->bytes.size() > list.bytes) return std::string();
    out += (*message)->bytes;
  }
  return out.size() == list.bytes ? out : std::string();
}

Result<std::string> NatsLog::Parts::content(const NatsStream::Message& message, bool& gap) {
  // The kind's letter is there in whatever can be read.
  const std::string_view whole = unseal(message, LogMessage::kInline);
  if (!whole.empty()) return std::string(whole.substr(1));
  const std::string_view in_parts = unseal(message, LogMessage::kInParts);
  if (in_parts.empty()) return std::string();
  const auto list = read_list(in_parts.substr(1));
  if (!list || list->bytes > kLargest) return std::string();
  for (const PartList::Part& one : list->parts)  // what is too far away is so for everybody
    if (one.sequence >= message.sequence || message.sequence - one.sequence > kMostPartsBack) return std::string();
  auto out = read_parts(*list);
  if (!out || !out->empty() || gap) return out;
  auto size = stream.size();  // other copies may have had what was dropped since
  if (!size) return size.error();
  gap = list->parts[0].sequence < size->first;
  return out;
}

Result<std::optional<NatsLog::LogEntry>> NatsLog::next(uint64_t after) {
  Parts& p = *parts_;
  if (Status s = p.stream.open(); !s.ok()) return s;
  auto message = p.stream.get(after + 1, p.entries);
  if (!message) return message.error();
  if (!*message) return std::optional<LogEntry>();
  LogEntry entry;
  entry.sequence = (*message)->sequence;
  if (entry.sequence > after + 1) {
    auto behind = p.stream.get(after + 1);  // a part, or what was there is gone
    if (!behind) return behind.error();
    entry.gap = !*behind;
  }
  auto bytes = p.content(**message, entry.gap);
  if (!bytes) return bytes.error();
  entry.bytes = *std::move(bytes);
  return std::optional<LogEntry>(std::move(entry));
}

Result<NatsLog::Extent> NatsLog::extent() {
  if (Status s = parts_->stream.open(); !s.ok()) return s;
  const NatsStream::Known& known = parts_->stream.known();
  return Extent{known.identity, known.connection};
}

Result<NatsLog::Place> NatsLog::at(uint64_t sequence) {
  Parts& p = *parts_;
  if (Status s = p.stream.open(); !s.ok()) return s;
  auto message = p.stream.get(sequence);
  if (!message) return message.error();
  Place place;
  if (!*message) {
    auto size = p.stream.size();
    if (!size) return size.error();
    place.dropped = sequence < size->first;
    return place;
  }
  place.entry = (*message)->subject == p.entries;
  if (!place.entry) return place;
  auto bytes = p.content(**message, place.dropped);
  if (!bytes) return bytes.error();
  place.bytes = *std::move(bytes);
  return place;
}

// Nothing: it is none, or what it lists is gone.
Result<std::optional<NatsLog::Snapshot>> NatsLog::Parts::read_snapshot(const NatsStream::Message& message) {
  const std::string_view text = unseal(message, LogMessage::kSnapshot);
  const auto outer = text.size() > 9 ? read_list(text.substr(9)) : std::nullopt;
  if (!outer || outer->bytes > kLargest) return std::optional<Snapshot>();
  auto inner = read_parts(*outer);
  if (!inner) return inner.error();
  auto list = read_list(*inner);
  if (!list) return std::optional<Snapshot>();
  Snapshot out{number_at(text, 1), list->bytes, {}};
  for (PartList::Part& one : list->parts) out.parts.push_back({one.sequence, std::move(one.digest)});
  return std::optional<Snapshot>(std::move(out));
}

// Each message is looked at once for a connection and a stream. What is sealed stays so: one that comes again is older
// than another.
Status NatsLog::Parts::look_for_snapshots() {
  if (looked != stream.known()) looked = stream.known(), seen = 0, newest.reset();
  for (uint64_t looks = 0; looks < kLooksAtOnce; ++looks) {
    auto message = stream.get(seen + 1, snapshots);
    if (!message) return message.error();
    if (!*message) return {};
    auto one = read_snapshot(**message);
    if (!one) return one.error();
    seen = (*message)->sequence;
    if (*one && (*one)->sequence < seen && (!newest || (*one)->sequence > newest->sequence)) newest = *std::move(one);
  }
  return base::try_again(Code::kUnavailable, "the jobs' log in NATS is full of what are no snapshots; try again later");
}

Result<std::optional<NatsLog::Snapshot>> NatsLog::snapshot() {
  Parts& p = *parts_;
  if (Status s = p.stream.open(); !s.ok()) return s;
  if (Status s = p.look_for_snapshots(); !s.ok()) return s;
  return p.newest;
}

Result<NatsLog::Part> NatsLog::append_part(std::string_view bytes) {
  if (Status s = parts_->stream.open(); !s.ok()) return s;
  auto sequence = parts_->stream.publish(parts_->part, {}, bytes);
  if (!sequence) return sequence.error();
  return Part{*sequence, digest_of(bytes)};
}

Result<std::string> NatsLog::read_part(const Part& part) {
  Parts& p = *parts_;
  if (Status s = p.stream.open(); !s.ok()) return s;
  auto message = p.stream.get(part.sequence);
  if (!message) return message.error();
  if (!*message) return std::string();
  if ((*message)->subject != p.part || digest_of((*message)->bytes) != part.digest)
    return failure(Code::kDataLoss, "a part of a snapshot is not the one that was written");
  return std::move((*message)->bytes);
}

NatsLog::Sizes NatsLog::sizes() const { return {parts_->part_size(), parts_->most_of_entry()}; }
void NatsLog::abandon() { parts_->stream.abandon(); }

// Whoever is slower, of two that make one, does not take the place of a newer one.
Status NatsLog::Parts::publish_snapshot(uint64_t sequence, const std::string& message) {
  for (int tries = 0; tries < 4; ++tries) {
    if (Status s = look_for_snapshots(); !s.ok()) return s;
    if (newest && newest->sequence >= sequence) return failure(Code::kAborted, "a newer snapshot is there");
    auto there = stream.publish(snapshots, {}, message, {.of_subject = seen, .of_all = 0});
    if (there) return {};
    if (there.error().code != Code::kAborted) return there.error();
    looked = {};  // all are looked at again
  }
  return base::try_again(Code::kUnavailable, "others write snapshots to the jobs' log; try again later");
}

Result<std::string> NatsLog::Parts::snapshot_message(const Snapshot& snapshot) {
  if (Status s = stream.open(); !s.ok()) return s;
  PartList list{snapshot.bytes, {}};
  for (const Part& one : snapshot.parts) list.parts.push_back({one.sequence, one.digest});
  const std::string inner = write_list(list);
  if (inner.size() > std::min(kLargest, part_size() * parts_in_list()))
    return failure(Code::kResourceExhausted, "the copy is too large for a snapshot in messages of the NATS server");
  auto outer = write_parts(inner);
  if (!outer) return outer.error();
  return seal_message(seal(), LogMessage::kSnapshot, number_bytes(snapshot.sequence) + write_list(*outer));
}

// The snapshot is there before anything goes.
Status NatsLog::set_snapshot(const Snapshot& snapshot) {
  Parts& p = *parts_;
  auto message = p.snapshot_message(snapshot);
  if (!message) return message.error();
  if (Status s = p.publish_snapshot(snapshot.sequence, *message); !s.ok()) return s;
  return snapshot.sequence <= kMostPartsBack ? Status() : p.stream.drop_before(snapshot.sequence - kMostPartsBack);
}

Status NatsLog::tell_copy(const Copy& copy) {
  Parts& p = *parts_;
  if (Status s = p.stream.open(); !s.ok()) return s;
  const std::string body = number_bytes(copy.sequence) + copy.identity;
  auto told = p.stream.publish(p.copies, {}, seal_message(p.seal(), LogMessage::kCopy, body));
  return told ? Status() : told.error();
}

Result<bool> NatsLog::is_behind(const Copy& copy) {
  Parts& p = *parts_;
  if (Status s = p.stream.open(); !s.ok()) return s;
  uint64_t at = 0;
  for (uint64_t looks = 0; looks < Parts::kMostCopies; ++looks) {
    auto message = p.stream.get(at + 1, p.copies);
    if (!message) return message.error();
    if (!*message) return false;
    at = (*message)->sequence;
    const std::string_view text = p.unseal(**message, LogMessage::kCopy);
    if (text.size() > 9 && is_behind_one(copy, text.substr(9), number_at(text, 1))) return true;
  }
  return false;
}

// It is written behind what was looked at, and nothing else.
Status NatsLog::begin_with(const Snapshot& snapshot) {
  Parts& p = *parts_;
  auto message = p.snapshot_message(snapshot);
  if (!message) return message.error();
  for (int tries = 0; tries < 4; ++tries) {
    auto size = p.stream.size();
    if (!size) return size.error();
    auto entry = p.stream.get(1, p.entries);
    if (!entry) return entry.error();
    if (Status s = p.look_for_snapshots(); !s.ok()) return s;
    if (*entry || p.newest) return failure(Code::kAborted, "the jobs' log has begun");
    auto there = p.stream.publish(p.snapshots, {}, *message, {.of_subject = std::nullopt, .of_all = size->last});
    if (there) return p.stream.tell(), Status();
    if (there.error().code != Code::kAborted) return there.error();
  }
  return base::try_again(Code::kUnavailable, "others write to the jobs' log; try again later");
}

Result<NatsLog::Room> NatsLog::room() {
  if (Status s = parts_->stream.open(); !s.ok()) return s;
  auto size = parts_->stream.size();
  if (!size) return size.error();
  return Room{size->used, size->most};
}

}  // namespace weir::cluster
