#include "jobs/replica.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/attempt.h"

namespace weir::jobs {
namespace {

using base::Code;
using base::failure;
using base::Result;
using base::Status;

constexpr size_t kSliceEntries = 64, kSliceBytes = 1 << 20;  // that are applied in one transaction
constexpr size_t kEnough = 256 << 10;                        // bytes of commands that make an entry
// For an entry that the server which is asked has not got yet.
constexpr int kLooks = 200;
constexpr auto kAskEvery = std::chrono::milliseconds(5);
constexpr const char* kIncomplete =
    "entries of the jobs' log in NATS are gone that this node's copy lacks, and no snapshot has them (jobs.path)";

// Bytes of commands: of one piece of work, and from how many on a group has no more of it. Both together are an entry.
size_t most_of_work(const Log::Sizes& sizes) { return sizes.entry - std::min<size_t>(sizes.entry / 4, 1 << 20); }
size_t enough_of_group(const Log::Sizes& sizes) { return std::min(kEnough, sizes.entry / 8); }

// The file's error, not that of the commands: all entries wait until it is over.
bool is_of_file(const Status& status) {
  return !status.ok() && status.code != Code::kAborted && status.code != Code::kInvalidArgument;
}

}  // namespace

Status log_is_another() {
  return failure(Code::kFailedPrecondition,
                 "the jobs' log in NATS is another one than this node's copy is of, or has lost its end (jobs.path, "
                 "cluster.db)");
}

Replica::Replica(ReplicaState& state, Log& log, Options options)
    : state_(state),
      log_(log),
      options_(std::move(options)),
      origin_(options_.name + '/' + options_.random_id()),
      recorder_(state, {options_.most_bytes, most_of_work({})}),
      snapshots_(state, log),
      beginning_(state, log, options_.now) {}

// A log that was made anew has sequences of its own; one that was cut short, and written to since, has others' entries
// and parts at them. What this copy has skipped may have been cut, too: it is read again.
Result<bool> Replica::is_of(const Log::Extent& extent) {
  if (position_.identity != extent.identity) return goes_on_in(extent);
  if (position_.sequence == 0) return true;
  auto newest = state_.newest_entry();
  if (!newest) return newest.error();
  uint64_t last = newest->sequence;
  if (last == 0 && !newest->id.empty()) {  // only the log's beginning has come
    auto beginning = log_.snapshot();
    if (!beginning) return beginning.error();
    if (!*beginning) return goes_on_in(extent);
    last = Log::Snapshot::kBeginning;
  } else if (last > 0) {
    auto place = log_.at(last);
    if (!place) return place.error();
    unproven_ = place->has == Log::Place::Has::kDropped;
    auto content = read_entry(place->bytes);
    const bool there = place->has == Log::Place::Has::kEntry && content && content->id == newest->id;
    if (!unproven_ && !there) return false;
  }
  if (last == position_.sequence) return true;
  const ReplicaState::Position back{position_.identity, last};
  if (Status s = state_.set_position(back); !s.ok()) return s;
  return position_ = back, true;
}

// The log that this copy is of is not there any more.
Result<bool> Replica::goes_on_in(const Log::Extent& extent) {
  auto newest = state_.newest_entry();
  if (!newest) return newest.error();
  if (newest->id.empty()) return position_ = {extent.identity, 0}, true;
  for (int tries = 0; tries < 2; ++tries) {
    auto taken = snapshots_.take({extent.identity, 0});
    if (!taken && taken.error().code == Code::kFailedPrecondition) return false;
    if (!taken) return taken.error();
    if (taken->sequence > 0) return moved_to(*taken), true;
    auto entry = log_.next(0);
    if (!entry) return entry.error();
    if (*entry) return false;
    Status begun = begin_log(extent, std::max(newest->sequence, Log::Snapshot::kBeginning));
    if (!begun.ok() && begun.code != Code::kAborted) return begun;
  }
  return log_is_new();
}

// Nothing is in it. With this copy, unless another one is further: then that node does it, while it is there.
Status Replica::begin_log(const Log::Extent& extent, uint64_t newest) {
  const Log::Copy copy{position_.identity, newest};
  if (const Connection here{extent.identity, extent.connection}; told_ != here) {
    if (Status s = log_.tell_copy(copy); !s.ok()) return s;
    told_ = here, told_at_ = options_.now();
  }
  const base::Duration since = options_.now() - told_at_;
  if (since < LogBeginning::kCompare) return log_is_new();
  auto behind = log_.is_behind(copy);
  if (!behind) return behind.error();
  if (*behind && since < LogBeginning::kCompare + LogBeginning::kYield) return log_is_new();
  return snapshots_.begin_log(extent.identity);
}

// Another origin: jobs that this node has claimed there have never come here.
void Replica::moved_to(const ReplicaState::Position& position) {
  incomplete_ = unproven_ = false;
  position_ = position;
  origin_ = options_.name + '/' + options_.random_id();
}

// For each connection anew: what a server lost when its power went, it has lost by then.
Status Replica::check_identity() {
  auto extent = log_.extent();
  if (!extent) return extent.error();
  if (checked_ == std::pair(extent->identity, extent->connection)) return diverged_ ? log_is_another() : Status();
  auto position = state_.position();
  if (!position) return position.error();
  position_ = *position;
  if (position_.identity.empty()) position_.identity = extent->identity;
  unproven_ = diverged_ = false;
  auto good = is_of(*extent);
  if (!good) return good.error();
  diverged_ = !*good;
  beginning_.note_log(position_.identity);
  checked_ = {extent->identity, extent->connection};
  return diverged_ ? log_is_another() : Status();
}

Result<bool> Replica::catch_up() {
  if (Status s = check_identity(); !s.ok()) return s;
  auto first = log_.next(position_.sequence);
  if (!first) return first.error();
  const bool gap = *first && (*first)->gap;
  if (gap || incomplete_ || unproven_ || position_.sequence == 0) {
    const uint64_t before = position_.sequence;
    if (Status s = take_snapshot(); !s.ok()) return s;
    if (position_.sequence > before) return true;
    unproven_ = false;
    if (*first) incomplete_ = gap;
  }
  if (incomplete_) return failure(Code::kFailedPrecondition, kIncomplete);
  if (!*first) return false;
  return apply_slice(**std::move(first));
}

// All or none of it, also where memory is short.
Result<bool> Replica::apply_slice(Log::LogEntry first) {
  const ReplicaState::Position before = position_;
  const size_t claimed = kept_.claimed.size(), ended = kept_.ended.size();
  bool more = false;
  Status status;
  const Status thrown = base::attempt("the journal", [&] { status = apply_all(std::move(first), more); });
  if (!thrown.ok()) status = thrown;
  if (status.ok()) return more;
  state_.rollback();
  position_ = before;
  kept_.claimed.resize(claimed), kept_.ended.resize(ended);
  if (pending_) pending_->applied = false;
  return status;
}

Status Replica::apply_all(std::optional<Log::LogEntry> entry, bool& more) {
  if (Status s = state_.begin(); !s.ok()) return s;
  Effects effects;
  size_t entries = 0, bytes = 0;
  while (entry) {
    if (Status s = apply(*entry, effects); !s.ok()) return s;
    position_.sequence = entry->sequence;
    bytes += entry->bytes.size();
    if (++entries >= kSliceEntries || bytes >= kSliceBytes) break;
    auto another = log_.next(position_.sequence);
    if (!another || (*another && (*another)->gap)) break;  // what is here is applied all the same
    entry = *std::move(another);
  }
  more = entry.has_value();
  if (Status s = state_.set_position(position_); !s.ok()) return s;
  for (Job& job : effects.claimed) kept_.claimed.push_back(std::move(job));
  for (std::string& batch : effects.ended) kept_.ended.push_back(std::move(batch));
  return state_.commit();
}

Status Replica::take_snapshot() {
  if (Status s = check_identity(); !s.ok()) return s;
  auto taken = snapshots_.take(position_);
  if (!taken) return diverged_ = taken.error().code == Code::kFailedPrecondition, taken.error();
  if (taken->sequence != position_.sequence) moved_to(*taken);
  return {};
}

// Whatever it is, the same becomes of it everywhere.
Status Replica::apply(const Log::LogEntry& entry, Effects& effects) {
  auto content = read_entry(entry.bytes);
  const bool timely = content && content->after < entry.sequence && entry.sequence - content->after <= kWindow;
  if (!timely) return ++skipped_, Status();
  auto fresh = state_.take_id(content->id, entry.sequence, entry.sequence - std::min(entry.sequence, kWindow));
  if (!fresh) return fresh.error();
  if (!*fresh) return ++skipped_, Status();
  const bool own = pending_ && pending_->id == content->id && content->origin == pending_->origin;
  std::vector<bool> voids;
  state_.act_as(content->origin);
  for (const Record& record : content->records) {
    bool is_void = false;
    Effects done;
    if (Status s = apply_record(record, *content, done, is_void); !s.ok()) return s;
    voids.push_back(is_void);
    if (is_void) continue;
    for (std::string& batch : done.ended) effects.ended.push_back(std::move(batch));
    if (content->origin != origin_) continue;
    for (Job& job : done.claimed) effects.claimed.push_back(std::move(job));
  }
  if (own) pending_->is_void = std::move(voids), pending_->applied = true;
  return {};
}

Status Replica::apply_record(const Record& record, const EntryContent& entry, Effects& effects, bool& is_void) {
  if (record.as == Record::As::kDuty) {
    auto holder = state_.duty_holder();
    if (!holder) return holder.error();
    if (*holder != entry.origin) return is_void = true, ++voided_, Status();
  }
  if (Status s = state_.mark(); !s.ok()) return s;
  const auto bodies = entry.origin == origin_ ? ReplicaState::Bodies::kRead : ReplicaState::Bodies::kLeave;
  Status status = run_commands(record.commands, entry.origin, bodies, state_, effects);
  if (status.ok()) return state_.keep();
  if (is_of_file(status)) return status;
  state_.undo();
  is_void = true;
  ++(status.code == Code::kInvalidArgument ? skipped_ : voided_);
  return {};
}

Status Replica::dry_run(const Run& run, std::string& commands) {
  recorder_.commands().cut(0);
  if (Status s = state_.mark(); !s.ok()) return s;
  Status status = base::attempt("the journal", [&] { run(recorder_); });
  if (status.ok() && recorder_.commands().bytes().size() > most_of_work(log_.sizes()))
    status = failure(Code::kResourceExhausted, "that is too much to be kept at once");
  if (status.ok()) status = state_.keep();
  if (!status.ok()) return state_.undo(), status;
  commands = recorder_.commands().bytes();
  return status;
}

std::vector<Status> Replica::perform(std::span<const Run> works, Record::As as) {
  std::vector<Status> out;
  const Status thrown = base::attempt("the journal", [&] { perform(works, as, out); });
  if (thrown.ok()) return out;
  state_.rollback();
  pending_ = nullptr;
  // The entry may be in the log.
  out.assign(std::min(works.size(), std::max<size_t>(out.size(), 1)), base::try_again(Code::kUnavailable, thrown.text));
  return out;
}

void Replica::perform(std::span<const Run> works, Record::As as, std::vector<Status>& out) {
  (void)check_identity();  // what only reads goes on all the same
  EntryContent entry{origin_, options_.random_id(), position_.sequence, {}};
  std::vector<size_t> place;  // of each record in `out`
  Status begun = state_.begin();
  if (!begun.ok()) return out.assign(works.size(), begun);
  state_.act_as(origin_);
  size_t bytes = 0;
  const size_t enough = enough_of_group(log_.sizes());
  recorder_.set_most(most_of_work(log_.sizes()));
  for (const Run& run : works) {
    if (bytes >= enough || entry.records.size() >= kMostRecords) break;
    // The work before may have ended it: what that one has noted is still good.
    begun = state_.in_transaction() ? Status() : state_.begin();
    std::string commands;
    out.push_back(begun.ok() ? dry_run(run, commands) : begun);
    if (!out.back().ok() || commands.empty()) continue;
    bytes += commands.size();
    place.push_back(out.size() - 1);
    entry.records.push_back({as, std::move(commands)});
  }
  state_.rollback();
  if (entry.records.empty()) return;
  Pending pending;
  Status status = submit(std::move(entry), pending);
  for (size_t i = 0; i < place.size(); ++i) {
    if (status.ok() && pending.is_void[i])
      out[place[i]] = failure(Code::kAborted, "it has changed meanwhile");
    else if (!status.ok())
      out[place[i]] = status;
  }
}

// An acknowledgement may be lost: then the same entry is appended again, which the log knows by its id.
Status Replica::submit(EntryContent entry, Pending& pending) {
  if (Status s = check_identity(); !s.ok()) return s;
  if (incomplete_) return failure(Code::kFailedPrecondition, kIncomplete);
  if (Status s = beginning_.check(position_); !s.ok()) return s;
  // The work has run on a copy of which this is not known now.
  if (unproven_ || entry.after != position_.sequence) return failure(Code::kAborted, "the log was looked at anew");
  pending.id = entry.id, pending.origin = entry.origin;
  const std::string bytes = write_entry(entry);
  auto sequence = log_.append(pending.id, bytes);
  if (!sequence && sequence.error().code == Code::kUnavailable) sequence = log_.append(pending.id, bytes);
  if (!sequence) return sequence.error();
  pending.sequence = *sequence;
  pending_ = &pending;
  Status status;
  for (int looks = 0; status.ok() && position_.sequence < pending.sequence && looks < kLooks; ++looks) {
    auto more = catch_up();
    if (!more) status = more.error();
    if (more && !*more && position_.sequence < pending.sequence) std::this_thread::sleep_for(kAskEvery);
  }
  pending_ = nullptr;
  if (status.ok() && !pending.applied) status = failure(Code::kUnavailable, "the log has not got it");
  return status;
}

std::optional<Job> Replica::next_claimed() {
  while (!kept_.claimed.empty()) {
    Job job = std::move(kept_.claimed.front());
    kept_.claimed.pop_front();
    state_.act_as(origin_);
    auto held = state_.storage().journal.holds(job.id);
    if (!held || *held) return job;
  }
  return std::nullopt;
}

bool Replica::has_duties() {
  auto holder = state_.duty_holder();
  return holder && *holder == origin_;
}

// A process before this one had the same name, and another token.
bool Replica::is_gone(const std::string& holder, const std::set<std::string>& there, base::Time now) {
  const std::string name = holder.substr(0, holder.find('/'));
  if (name == options_.name) return holder != origin_;
  if (there.contains(name)) return absent_.erase(holder), false;
  return now - absent_.emplace(holder, now).first->second >= kGrace;
}

Result<bool> Replica::look_after_nodes(const std::set<std::string>* there, base::Time now) {
  if (!there) return absent_.clear(), false;
  auto holders = state_.holders();
  if (!holders) return holders.error();
  auto duties = state_.duty_holder();
  if (!duties) return duties.error();
  std::vector<Run> works;
  for (const std::string& holder : *holders)
    if (is_gone(holder, *there, now)) works.emplace_back([&holder](Recorder& r) { r.commands().free(holder); });
  if (*duties != origin_ && (duties->empty() || is_gone(*duties, *there, now)))
    works.emplace_back([&before = *duties](Recorder& r) { r.commands().take_duties(before); });
  std::erase_if(absent_, [&](const auto& one) {
    return one.first != *duties && std::find(holders->begin(), holders->end(), one.first) == holders->end();
  });
  if (works.empty()) return false;
  for (const Status& status : perform(works))
    if (!status.ok() && status.code != Code::kAborted) return status;
  return true;
}

}  // namespace weir::jobs
