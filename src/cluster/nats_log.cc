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

struct NatsLog::Parts {
  Parts(Options o, std::function<void()> news)
      : options(std::move(o)), stream({options.url, options.name, options.node, options.most_bytes}, std::move(news)) {}

  const Options options;
  NatsStream stream;
  const std::string entries = stream.subject("entry"), part = stream.subject("part"),
                    snapshots = stream.subject("snapshot");

  std::string seal(LogMessage kind, std::string_view body) const { return seal_message(options.key, kind, body); }
  std::string_view unseal(const NatsStream::Message& message, LogMessage kind) const {
    return unseal_message(options.key, kind, message.bytes);
  }
  Result<std::string> read_parts(std::string_view list, uint64_t sequence);
  Result<std::string> content(const NatsStream::Message& message);
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
  const size_t part = std::min(kPart, p.stream.longest() / 2);
  std::string message;
  if (bytes.size() <= part) {
    message = p.seal(LogMessage::kInline, bytes);
  } else if (bytes.size() > part * kMostParts) {
    return failure(Code::kResourceExhausted, "that is too long for messages of the NATS server (max_payload)");
  } else {
    std::string list = number_bytes(bytes.size());
    for (size_t at = 0; at < bytes.size(); at += part) {
      auto sequence = p.stream.publish(p.part, {}, bytes.substr(at, part));
      if (!sequence) return sequence.error();
      list += number_bytes(*sequence);
    }
    message = p.seal(LogMessage::kInParts, list);
  }
  auto sequence = p.stream.publish(p.entries, id, message);
  if (sequence) p.stream.tell();
  return sequence;
}

// Empty: some of them are gone, or too far away for everybody.
Result<std::string> NatsLog::Parts::read_parts(std::string_view list, uint64_t sequence) {
  if (list.size() < 16 || list.size() % 8 != 0) return std::string();
  const uint64_t bytes = number_at(list, 0);
  if (bytes > kLargest) return std::string();
  std::string out;
  for (size_t at = 8; at < list.size(); at += 8) {
    const uint64_t from = number_at(list, at);
    if (from >= sequence || sequence - from > kMostPartsBack) return std::string();
    auto message = stream.get(from);
    if (!message) return message.error();
    if (!*message || (*message)->subject != part || out.size() + (*message)->bytes.size() > bytes) return std::string();
    out += (*message)->bytes;
  }
  return out.size() == bytes ? out : std::string();
}

Result<std::string> NatsLog::Parts::content(const NatsStream::Message& message) {
  // The kind's letter is there in whatever can be read.
  const std::string_view whole = unseal(message, LogMessage::kInline);
  if (!whole.empty()) return std::string(whole.substr(1));
  const std::string_view list = unseal(message, LogMessage::kInParts);
  return list.empty() ? std::string() : read_parts(list.substr(1), message.sequence);
}

Result<std::optional<NatsLog::LogEntry>> NatsLog::next(uint64_t after) {
  Parts& p = *parts_;
  if (Status s = p.stream.open(); !s.ok()) return s;
  auto message = p.stream.get(after + 1, p.entries);
  if (!message) return message.error();
  if (!*message) return std::optional<LogEntry>();
  LogEntry entry;
  entry.sequence = (*message)->sequence;
  if (entry.sequence > after + 1 && after > 0) {
    auto behind = p.stream.get(after + 1);  // a part, or what was there is gone
    if (!behind) return behind.error();
    entry.gap = !*behind;
  }
  auto bytes = p.content(**message);
  if (!bytes) return bytes.error();
  entry.bytes = *std::move(bytes);
  return std::optional<LogEntry>(std::move(entry));
}

Result<NatsLog::Extent> NatsLog::extent() {
  if (Status s = parts_->stream.open(); !s.ok()) return s;
  const NatsStream::Known& known = parts_->stream.known();
  return Extent{known.identity, known.last};
}

Result<std::optional<NatsLog::Snapshot>> NatsLog::snapshot() {
  Parts& p = *parts_;
  if (Status s = p.stream.open(); !s.ok()) return s;
  std::optional<Snapshot> out;
  for (uint64_t at = 0;;) {
    auto message = p.stream.get(at + 1, p.snapshots);
    if (!message) return message.error();
    if (!*message) return out;
    at = (*message)->sequence;
    const std::string_view text = p.unseal(**message, LogMessage::kSnapshot);
    out.reset();
    if (text.size() < 17 || text.size() % 8 != 1) continue;
    out.emplace(Snapshot{number_at(text, 1), number_at(text, 9), {}});
    for (size_t i = 17; i < text.size(); i += 8) out->parts.push_back(number_at(text, i));
  }
}

Result<uint64_t> NatsLog::append_part(std::string_view bytes) {
  if (Status s = parts_->stream.open(); !s.ok()) return s;
  return parts_->stream.publish(parts_->part, {}, bytes);
}

Result<std::string> NatsLog::read_part(uint64_t sequence) {
  Parts& p = *parts_;
  if (Status s = p.stream.open(); !s.ok()) return s;
  auto message = p.stream.get(sequence);
  if (!message) return message.error();
  return *message && (*message)->subject == p.part ? std::move((*message)->bytes) : std::string();
}

// The snapshot is there before anything goes.
Status NatsLog::set_snapshot(const Snapshot& snapshot) {
  Parts& p = *parts_;
  if (Status s = p.stream.open(); !s.ok()) return s;
  std::string body = number_bytes(snapshot.sequence) + number_bytes(snapshot.bytes);
  for (const uint64_t part : snapshot.parts) body += number_bytes(part);
  auto there = p.stream.publish(p.snapshots, {}, p.seal(LogMessage::kSnapshot, body));
  if (!there) return there.error();
  return snapshot.sequence <= kMostPartsBack ? Status() : p.stream.drop_before(snapshot.sequence - kMostPartsBack);
}

Result<NatsLog::Room> NatsLog::room() {
  if (Status s = parts_->stream.open(); !s.ok()) return s;
  auto size = parts_->stream.size();
  if (!size) return size.error();
  return Room{size->used, size->most};
}

}  // namespace weir::cluster
