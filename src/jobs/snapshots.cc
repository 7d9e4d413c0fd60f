#include "jobs/snapshots.h"

#include <unistd.h>

#include <algorithm>
#include <string>

#include "base/log.h"

namespace weir::jobs {
namespace {

using base::Code;
using base::failure;
using base::Result;
using base::Status;

constexpr uint64_t kSlack = 4 << 20;  // bytes of messages' heads, and of what others append meanwhile

constexpr const char *kOut = "snapshot-out.db", *kIn = "snapshot-in.db";

Status ended() { return failure(Code::kUnavailable, "the server is shutting down"); }
Status no_room() { return failure(Code::kResourceExhausted, "there is no room on disk for a snapshot (jobs.path)"); }

}  // namespace

Status Snapshots::fetch(const Log::Snapshot& snapshot) {
  std::ofstream file(state_.copies().path_of(kIn), std::ios::binary | std::ios::trunc);
  uint64_t bytes = 0;
  for (const Log::Part& which : snapshot.parts) {
    auto part = log_.read_part(which);
    if (!part) return part.error();
    if (stopping_) return ended();
    if (part->empty()) return base::try_again(Code::kUnavailable, "the snapshot was replaced; try again");
    bytes += part->size();
    if (bytes > snapshot.bytes || !file.write(part->data(), std::streamsize(part->size()))) return no_room();
  }
  file.close();
  return file && bytes == snapshot.bytes ? Status() : no_room();
}

Result<ReplicaState::Position> Snapshots::take(const ReplicaState::Position& now) {
  auto newest = log_.snapshot();
  if (!newest) return newest.error();
  if (!*newest || (*newest)->sequence <= now.sequence) return now;
  ReplicaState::Position then{now.identity, (*newest)->sequence};
  Status status = fetch(**newest);
  if (status.ok()) status = state_.copies().load(kIn, then);
  (void)::unlink(state_.copies().path_of(kIn).c_str());
  if (!status.ok()) return status;
  base::log::info("a snapshot of the jobs' log was taken", {{"entries", then.sequence}, {"bytes", (*newest)->bytes}});
  return then;
}

// Next to what the copy holds: so a snapshot is as rare as it is large.
Result<bool> Snapshots::is_long(const ReplicaState::Position& now) {
  auto last = log_.snapshot();
  if (!last) return last.error();
  if (now.sequence < (*last ? (*last)->sequence : 0) + kApart) return false;
  auto room = log_.room();
  if (!room) return room.error();
  auto used = state_.used();
  if (!used) return used.error();
  const uint64_t fits = room->most - std::min(room->most, *used + kSlack);  // beside a snapshot
  if (room->used <= std::min({kShort + 2 * *used, room->most / 2, fits / 2})) return false;
  if (room->used > fits)
    return failure(Code::kResourceExhausted,
                   "the jobs' log has no room for a snapshot of what is kept, and fills up: its stream in NATS needs "
                   "more bytes (max_bytes)");
  return true;
}

Status Snapshots::open(uint64_t sequence) {
  making_->snapshot.sequence = sequence;
  making_->file.open(state_.copies().path_of(kOut), std::ios::binary);
  return making_->file ? Status() : no_room();
}

// True: there are more.
Result<bool> Snapshots::append_parts() {
  std::string part(log_.sizes().part, '\0');
  for (uint64_t i = 0; i < kParts; ++i) {
    if (stopping_) return ended();
    making_->file.read(part.data(), std::streamsize(part.size()));
    const size_t size = size_t(making_->file.gcount());
    if (size == 0) return false;
    auto appended = log_.append_part(std::string_view(part).substr(0, size));
    if (!appended) return appended.error();
    making_->snapshot.parts.push_back(*std::move(appended));
    making_->snapshot.bytes += size;
  }
  return true;
}

Result<bool> Snapshots::shorten(const ReplicaState::Position& now) {
  Status status;
  if (!making_) {
    auto is = is_long(now);
    if (!is || !*is) return is;
    making_.emplace();
    status = state_.copies().save(kOut);
    if (status.ok()) status = open(now.sequence);
  }
  Result<bool> more = status.ok() ? append_parts() : status;
  if (more && *more) return true;
  status = more ? log_.set_snapshot(making_->snapshot) : more.error();
  if (status.ok())
    base::log::info("the jobs' log was shortened",
                    {{"entries", making_->snapshot.sequence}, {"bytes", making_->snapshot.bytes}});
  give_up();
  if (!status.ok() && status.code != Code::kAborted) return status;
  return false;
}

Status Snapshots::begin_log(const std::string& identity) {
  constexpr uint64_t kFirst = Log::Snapshot::kBeginning;
  give_up();
  making_.emplace();
  Status status = state_.copies().save_beginning(kOut, {identity, kFirst});
  if (status.ok()) status = open(kFirst);
  for (bool goes_on = true; status.ok() && goes_on;) {
    auto more = append_parts();
    status = more ? Status() : more.error();
    goes_on = more && *more;
  }
  if (status.ok()) status = log_.begin_with(making_->snapshot);
  if (status.ok())
    base::log::warning("the jobs' log in NATS was empty: it begins with what this node has kept",
                       {{"bytes", making_->snapshot.bytes}});
  give_up();
  return status;
}

void Snapshots::give_up() {
  if (!making_) return;
  making_.reset();
  (void)::unlink(state_.copies().path_of(kOut).c_str());
}

}  // namespace weir::jobs
