#include "jobs/recorder.h"

namespace weir::jobs {

using base::Result;
using base::Status;

Status no_room_on_disk() {
  return base::failure(base::Code::kResourceExhausted, "there is no room on disk for it (jobs.disk)");
}

Status disk_is_full() {
  return base::failure(base::Code::kUnavailable,
                       "the server's disk is full: nothing can be kept in the folder that jobs.path names");
}

Status file_is_gone() {
  return base::failure(base::Code::kUnavailable,
                       "the journal's file was removed from the folder that jobs.path names, or replaced: nothing is "
                       "kept until the server is started anew");
}

namespace {

uint64_t bytes_of(std::span<const Job> jobs) {
  uint64_t out = 0;
  for (const Job& job : jobs) out += job.label.size() + job.fields.size() + job.body.size();
  return out;
}

}  // namespace

Recorder::Recorder(ReplicaState& state, Bounds bounds)
    : Storage(journal_, batches_, files_),
      state_(state),
      bounds_(bounds),
      inner_(state.storage()),
      journal_(*this),
      batches_(*this),
      files_(*this) {}

Status Recorder::writable() const { return state_.in_transaction() ? Status() : no_room_on_disk(); }

Status Recorder::fits(uint64_t bytes) {
  if (Status s = writable(); !s.ok()) return s;
  if (commands_.bytes().size() + bytes > bounds_.commands)
    return base::failure(base::Code::kResourceExhausted, "that is too much to be kept at once");
  auto used = state_.used();
  if (!used) return used.error();
  return *used + bytes > bounds_.file ? no_room_on_disk() : Status();
}

Status Recorder::together(Status (*run)(void*), void* work) {
  const size_t before = commands_.bytes().size();
  if (Status s = state_.mark(); !s.ok()) return s;
  Status status = run(work);
  if (status.ok()) status = state_.keep();
  if (status.ok()) return status;
  state_.undo();
  commands_.cut(before);
  return status;
}

Status Recorder::RecordedJournal::put(std::span<const Job> jobs) {
  if (Status s = to.fits(bytes_of(jobs)); !s.ok()) return s;
  Status status = to.inner_.journal.put(jobs);
  if (status.ok() && !jobs.empty()) to.commands_.put(jobs);
  return status;
}
Status Recorder::RecordedJournal::put_claimed(std::span<const Job> jobs) {
  if (Status s = to.fits(bytes_of(jobs)); !s.ok()) return s;
  Status status = to.inner_.journal.put_claimed(jobs);
  if (status.ok() && !jobs.empty()) to.commands_.put_claimed(jobs);
  return status;
}
Result<bool> Recorder::RecordedJournal::holds(const JobId& id) { return to.inner_.journal.holds(id); }
// Where nothing waits, nothing is noted: nobody is told that nothing was claimed. Whoever is granted a job reads it
// when the claim is.
Result<std::vector<Job>> Recorder::RecordedJournal::claim(size_t most, base::WallTime now) {
  if (Status s = to.writable(); !s.ok()) return s;
  auto jobs = to.state_.claim(most, now, ReplicaState::Bodies::kLeave);
  if (jobs && !jobs->empty()) to.commands_.claim(most, now);
  return jobs;
}
Result<bool> Recorder::RecordedJournal::finish(const JobId& id, const Outcome& outcome) {
  const uint64_t bytes = outcome.body.size() + outcome.fields.size();
  if (Status s = outcome.body.empty() ? to.writable() : to.fits(bytes); !s.ok()) return s;
  auto first = to.inner_.journal.finish(id, outcome);
  if (first && *first) to.commands_.finish(id, outcome);
  return first;
}
Status Recorder::RecordedJournal::release(const JobId& id, base::WallTime when) {
  if (Status s = to.writable(); !s.ok()) return s;
  Status status = to.inner_.journal.release(id, when);
  if (status.ok()) to.commands_.release(id, when);
  return status;
}
Result<std::vector<FinishedJob>> Recorder::RecordedJournal::list(const std::string& batch, uint64_t from,
                                                                 uint64_t bytes) {
  return to.inner_.journal.list(batch, from, bytes);
}
Result<Counts> Recorder::RecordedJournal::count(const std::string& batch) { return to.inner_.journal.count(batch); }
// A batch that is cancelled is looked at again and again until its last job is over.
Status Recorder::RecordedJournal::withdraw(const std::string& batch) {
  if (Status s = to.writable(); !s.ok()) return s;
  auto counts = to.inner_.journal.count(batch);
  if (!counts) return counts.error();
  Status status = to.inner_.journal.withdraw(batch);
  if (status.ok() && counts->waiting > 0) to.commands_.withdraw(batch);
  return status;
}
Status Recorder::RecordedJournal::remove(const std::string& batch) {
  if (Status s = to.writable(); !s.ok()) return s;
  Status status = to.inner_.journal.remove(batch);
  if (status.ok()) to.commands_.remove_jobs(batch);
  return status;
}

Status Recorder::RecordedBatches::add(const Batch& batch) {
  if (Status s = to.fits(batch.document.size()); !s.ok()) return s;
  Status status = to.inner_.batches.add(batch);
  if (status.ok()) to.commands_.add(batch);
  return status;
}
Result<bool> Recorder::RecordedBatches::change(const Batch& batch) {
  if (Status s = to.writable(); !s.ok()) return s;
  auto version = to.state_.version(batch.id);
  if (!version) return version.error();
  auto changed = to.inner_.batches.change(batch);
  if (changed && *changed) to.commands_.change(batch, *version);
  return changed;
}
Result<std::optional<Batch>> Recorder::RecordedBatches::find(std::string_view owner, std::string_view id) {
  return to.inner_.batches.find(owner, id);
}
Result<std::vector<Batch>> Recorder::RecordedBatches::list(std::string_view owner, std::string_view kind,
                                                           ListOrder order, std::string_view after, size_t most) {
  return to.inner_.batches.list(owner, kind, order, after, most);
}
Result<std::vector<Batch>> Recorder::RecordedBatches::in_states(std::string_view kind,
                                                                std::span<const std::string_view> states, size_t most) {
  return to.inner_.batches.in_states(kind, states, most);
}
Result<std::vector<Batch>> Recorder::RecordedBatches::idle(std::string_view kind,
                                                           std::span<const std::string_view> states, size_t most) {
  return to.inner_.batches.idle(kind, states, most);
}
Result<std::vector<Batch>> Recorder::RecordedBatches::due(std::string_view kind,
                                                          std::span<const std::string_view> states, base::WallTime now,
                                                          size_t most) {
  return to.inner_.batches.due(kind, states, now, most);
}
Result<uint64_t> Recorder::RecordedBatches::count(std::string_view owner, std::span<const std::string_view> states) {
  return to.inner_.batches.count(owner, states);
}
Status Recorder::RecordedBatches::remove(std::string_view id) {
  if (Status s = to.writable(); !s.ok()) return s;
  Status status = to.inner_.batches.remove(id);
  if (status.ok()) to.commands_.remove_batch(id);
  return status;
}

Status Recorder::RecordedFiles::append(std::string_view id, uint64_t part, std::string_view bytes,
                                       std::string_view owner) {
  if (Status s = to.fits(bytes.size()); !s.ok()) return s;
  Status status = to.inner_.files.append(id, part, bytes, owner);
  if (status.ok()) to.commands_.append(id, part, bytes, owner);
  return status;
}
Result<uint64_t> Recorder::RecordedFiles::appended(std::string_view id) { return to.inner_.files.appended(id); }
Status Recorder::RecordedFiles::add(const File& file) {
  if (Status s = to.fits(file.name.size()); !s.ok()) return s;
  auto there = to.inner_.files.appended(file.id);
  if (!there) return there.error();
  if (*there != file.bytes) return base::failure(base::Code::kAborted, "the file's content is gone, or a part of it");
  Status status = to.inner_.files.add(file);
  if (status.ok()) to.commands_.add(file);
  return status;
}
Result<std::optional<File>> Recorder::RecordedFiles::find(std::string_view owner, std::string_view id) {
  return to.inner_.files.find(owner, id);
}
Result<std::vector<File>> Recorder::RecordedFiles::list(std::string_view owner, std::string_view purpose,
                                                        ListOrder order, std::string_view after, size_t most) {
  return to.inner_.files.list(owner, purpose, order, after, most);
}
Result<std::string> Recorder::RecordedFiles::read(std::string_view id, uint64_t part) {
  return to.inner_.files.read(id, part);
}
// A refused upload has left nothing: then nothing is noted, and the log does not grow by what is refused.
Status Recorder::RecordedFiles::remove(std::string_view id) {
  if (Status s = to.writable(); !s.ok()) return s;
  auto there = to.state_.has_file(id);
  if (!there) return there.error();
  Status status = to.inner_.files.remove(id);
  if (status.ok() && *there) to.commands_.remove_file(id);
  return status;
}
Result<std::vector<std::string>> Recorder::RecordedFiles::expired(base::WallTime now, size_t most) {
  return to.inner_.files.expired(now, most);
}
Result<Files::Use> Recorder::RecordedFiles::use(std::string_view owner) { return to.inner_.files.use(owner); }

}  // namespace weir::jobs
