#include "jobs/commands.h"

#include <chrono>

namespace weir::jobs {
namespace {

using base::Code;
using base::failure;
using base::Status;

constexpr std::string_view kEntryHead = "weirjob1";
constexpr size_t kMostClaimed = 4096, kMostPut = 1 << 20;

enum class Kind : uint8_t {
  kPut = 1,
  kClaim,
  kFinish,
  kRelease,
  kWithdraw,
  kRemoveJobs,
  kAddBatch,
  kChangeBatch,
  kRemoveBatch,
  kAppend,
  kAddFile,
  kRemoveFile,
  kFree,
  kTakeDuties,
  kEnd,
  kPutClaimed,
};

struct ByteWriter {
  std::string& out;

  ByteWriter& number(uint64_t value, int bytes = 8) {
    for (int i = 0; i < bytes; ++i) out += char(value >> (8 * i));
    return *this;
  }
  ByteWriter& kind(Kind value) { return number(uint64_t(value), 1); }
  ByteWriter& text(std::string_view value) {
    number(value.size(), 4);
    out += value;
    return *this;
  }
  ByteWriter& time(base::WallTime at) {
    return number(uint64_t(std::chrono::duration_cast<std::chrono::milliseconds>(at.time_since_epoch()).count()));
  }
  ByteWriter& jobs(Batch::Jobs value) { return number(uint64_t(value), 1); }
};

// Behind the end there is nothing to read, and `ok` tells.
struct ByteReader {
  std::string_view rest;
  bool ok = true;

  uint64_t number(size_t bytes = 8) {
    if (rest.size() < bytes) return ok = false, 0;
    uint64_t out = 0;
    for (size_t i = 0; i < bytes; ++i) out |= uint64_t(uint8_t(rest[i])) << (8 * i);
    rest.remove_prefix(bytes);
    return out;
  }
  std::string_view view() {
    const uint64_t size = number(4);
    if (!ok || rest.size() < size) return ok = false, std::string_view();
    std::string_view out = rest.substr(0, size);
    rest.remove_prefix(size);
    return out;
  }
  std::string text() { return std::string(view()); }
  // Within what a clock can say: more is no time.
  base::WallTime time() {
    constexpr int64_t kMostSeconds = int64_t(1) << 33;
    const int64_t at = int64_t(number());
    if (at < 0 || at > kMostSeconds * 1000) return ok = false, base::WallTime();
    return base::WallTime(std::chrono::milliseconds(at));
  }
  Batch::Jobs jobs() {
    const uint64_t value = number(1);
    if (value > uint64_t(Batch::Jobs::kWait)) ok = false;
    return Batch::Jobs(value);
  }
  JobId job() {
    JobId out;
    out.batch = text();
    out.index = number();
    if (out.index > uint64_t(INT64_MAX)) ok = false;
    return out;
  }
};

Status malformed() { return base::invalid("a command of the journal's log is malformed"); }
Status moved_on() { return failure(Code::kAborted, "it has changed meanwhile"); }
template <class T>
Status status_of_result(const base::Result<T>& result) {
  return result ? Status() : result.error();
}

struct Runner {
  ByteReader in;
  std::string_view origin;
  ReplicaState::Bodies bodies;
  ReplicaState& state;
  Effects& effects;
  Storage& s = state.storage();

  Status run();
  Status put(Kind kind);
  Status claim();
  Status finish();
  Status release();
  Status withdraw();
  Status remove_jobs();
  Status add_batch();
  Status change_batch();
  Status remove_batch();
  Status append();
  Status add_file();
  Status remove_file();
  Status take_duties();
  Status end();
  Status free() {
    const std::string_view holder = in.view();
    return in.ok ? state.free(holder) : malformed();
  }
};

Status Runner::put(Kind kind) {
  const uint64_t count = in.number(4);
  if (count > kMostPut) return malformed();
  std::vector<Job> jobs;
  for (uint64_t i = 0; i < count && in.ok; ++i) {
    Job& job = jobs.emplace_back();
    job.id = in.job();
    job.label = in.text(), job.model = in.text(), job.target = in.text(), job.fields = in.text(), job.body = in.text();
  }
  if (!in.ok) return malformed();
  return kind == Kind::kPut ? s.journal.put(jobs) : s.journal.put_claimed(jobs);
}

Status Runner::claim() {
  const uint64_t most = in.number(4);
  const base::WallTime now = in.time();
  if (!in.ok || most > kMostClaimed) return malformed();
  auto jobs = state.claim(most, now, bodies);
  if (!jobs) return jobs.error();
  for (Job& job : *jobs) effects.claimed.push_back(std::move(job));
  return {};
}

Status Runner::finish() {
  const JobId id = in.job();
  Outcome outcome;
  outcome.status = int(in.number(2));
  outcome.fields = in.text(), outcome.body = in.text();
  return in.ok ? status_of_result(s.journal.finish(id, outcome)) : malformed();
}

Status Runner::release() {
  const JobId id = in.job();
  const base::WallTime when = in.time();
  return in.ok ? s.journal.release(id, when) : malformed();
}

Status Runner::withdraw() {
  const std::string batch = in.text();
  return in.ok ? s.journal.withdraw(batch) : malformed();
}

Status Runner::remove_jobs() {
  const std::string batch = in.text();
  return in.ok ? s.journal.remove(batch) : malformed();
}

Status Runner::add_batch() {
  Batch batch;
  batch.id = in.text(), batch.kind = in.text();
  batch.requester.owner = in.text(), batch.requester.caller = in.text(), batch.requester.host = in.text();
  batch.state = in.text(), batch.document = in.text();
  batch.created = in.time(), batch.expires = in.time();
  batch.jobs = in.jobs();
  return in.ok ? s.batches.add(batch) : malformed();
}

Status Runner::change_batch() {
  Batch batch;
  batch.id = in.text();
  const uint64_t before = in.number();
  batch.state = in.text(), batch.document = in.text();
  batch.expires = in.time();
  batch.jobs = in.jobs();
  if (!in.ok) return malformed();
  auto version = state.version(batch.id);
  if (!version) return version.error();
  if (*version != before) return moved_on();
  return status_of_result(s.batches.change(batch));
}

Status Runner::remove_batch() {
  const std::string_view id = in.view();
  return in.ok ? s.batches.remove(id) : malformed();
}

Status Runner::append() {
  const std::string_view file = in.view();
  const uint64_t part = in.number();
  const std::string_view bytes = in.view(), owner = in.view();
  return in.ok && part <= uint64_t(INT64_MAX) ? s.files.append(file, part, bytes, owner) : malformed();
}

Status Runner::add_file() {
  File file;
  file.id = in.text(), file.owner = in.text(), file.name = in.text(), file.purpose = in.text();
  file.bytes = in.number();
  file.created = in.time(), file.expires = in.time();
  if (!in.ok || file.bytes > uint64_t(INT64_MAX)) return malformed();
  auto there = s.files.appended(file.id);
  if (!there) return there.error();
  return *there == file.bytes ? s.files.add(file) : moved_on();
}

Status Runner::remove_file() {
  const std::string_view id = in.view();
  return in.ok ? s.files.remove(id) : malformed();
}

Status Runner::take_duties() {
  const std::string before = in.text();
  if (!in.ok) return malformed();
  auto now = state.duty_holder();
  if (!now) return now.error();
  return *now == before ? state.set_duty_holder(origin) : moved_on();
}

Status Runner::end() {
  std::string batch = in.text();
  if (!in.ok) return malformed();
  effects.ended.push_back(std::move(batch));
  return {};
}

Status Runner::run() {
  switch (const auto kind = Kind(in.number(1))) {
    case Kind::kPut:
    case Kind::kPutClaimed: return put(kind);
    case Kind::kClaim: return claim();
    case Kind::kFinish: return finish();
    case Kind::kRelease: return release();
    case Kind::kWithdraw: return withdraw();
    case Kind::kRemoveJobs: return remove_jobs();
    case Kind::kAddBatch: return add_batch();
    case Kind::kChangeBatch: return change_batch();
    case Kind::kRemoveBatch: return remove_batch();
    case Kind::kAppend: return append();
    case Kind::kAddFile: return add_file();
    case Kind::kRemoveFile: return remove_file();
    case Kind::kFree: return free();
    case Kind::kTakeDuties: return take_duties();
    case Kind::kEnd: return end();
  }
  return malformed();
}

ByteWriter& write_job(ByteWriter& out, const JobId& id) { return out.text(id.batch).number(id.index); }

void write_jobs(ByteWriter out, Kind kind, std::span<const Job> jobs) {
  out.kind(kind).number(jobs.size(), 4);
  for (const Job& job : jobs)
    write_job(out, job.id).text(job.label).text(job.model).text(job.target).text(job.fields).text(job.body);
}

}  // namespace

void Commands::put(std::span<const Job> jobs) { write_jobs({bytes_}, Kind::kPut, jobs); }
void Commands::put_claimed(std::span<const Job> jobs) { write_jobs({bytes_}, Kind::kPutClaimed, jobs); }
void Commands::claim(size_t most, base::WallTime now) {
  ByteWriter{bytes_}.kind(Kind::kClaim).number(most, 4).time(now);
}
void Commands::finish(const JobId& id, const Outcome& outcome) {
  ByteWriter out{bytes_};
  write_job(out.kind(Kind::kFinish), id).number(uint64_t(outcome.status), 2).text(outcome.fields).text(outcome.body);
}
void Commands::release(const JobId& id, base::WallTime when) {
  ByteWriter out{bytes_};
  write_job(out.kind(Kind::kRelease), id).time(when);
}
void Commands::withdraw(std::string_view batch) { ByteWriter{bytes_}.kind(Kind::kWithdraw).text(batch); }
void Commands::remove_jobs(std::string_view batch) { ByteWriter{bytes_}.kind(Kind::kRemoveJobs).text(batch); }
void Commands::add(const Batch& batch) {
  ByteWriter out{bytes_};
  out.kind(Kind::kAddBatch).text(batch.id).text(batch.kind);
  out.text(batch.requester.owner).text(batch.requester.caller).text(batch.requester.host);
  out.text(batch.state).text(batch.document).time(batch.created).time(batch.expires).jobs(batch.jobs);
}
void Commands::change(const Batch& batch, uint64_t version) {
  ByteWriter out{bytes_};
  out.kind(Kind::kChangeBatch).text(batch.id).number(version);
  out.text(batch.state).text(batch.document).time(batch.expires).jobs(batch.jobs);
}
void Commands::remove_batch(std::string_view id) { ByteWriter{bytes_}.kind(Kind::kRemoveBatch).text(id); }
void Commands::append(std::string_view file, uint64_t part, std::string_view bytes, std::string_view owner) {
  ByteWriter{bytes_}.kind(Kind::kAppend).text(file).number(part).text(bytes).text(owner);
}
void Commands::add(const File& file) {
  ByteWriter out{bytes_};
  out.kind(Kind::kAddFile).text(file.id).text(file.owner).text(file.name).text(file.purpose);
  out.number(file.bytes).time(file.created).time(file.expires);
}
void Commands::remove_file(std::string_view id) { ByteWriter{bytes_}.kind(Kind::kRemoveFile).text(id); }
void Commands::free(std::string_view holder) { ByteWriter{bytes_}.kind(Kind::kFree).text(holder); }
void Commands::take_duties(std::string_view before) { ByteWriter{bytes_}.kind(Kind::kTakeDuties).text(before); }
void Commands::end(std::string_view batch) { ByteWriter{bytes_}.kind(Kind::kEnd).text(batch); }

std::string write_entry(const EntryContent& entry) {
  std::string bytes(kEntryHead);
  ByteWriter out{bytes};
  out.text(entry.origin).text(entry.id).number(entry.after).number(entry.records.size(), 4);
  for (const Record& record : entry.records) out.number(uint64_t(record.as), 1).text(record.commands);
  return bytes;
}

base::Result<EntryContent> read_entry(std::string_view bytes) {
  if (!bytes.starts_with(kEntryHead)) return malformed();
  ByteReader in{bytes.substr(kEntryHead.size())};
  EntryContent out;
  out.origin = in.text(), out.id = in.text();
  out.after = in.number();
  const uint64_t records = in.number(4);
  if (!in.ok || out.origin.size() > kLongestOrigin || out.id.empty() || out.id.size() > kLongestId) return malformed();
  if (records > kMostRecords) return malformed();
  for (uint64_t i = 0; i < records && in.ok; ++i) {
    const uint64_t as = in.number(1);
    if (as > uint64_t(Record::As::kDuty)) return malformed();
    out.records.push_back({Record::As(as), in.text()});
  }
  if (!in.ok || !in.rest.empty()) return malformed();
  return out;
}

Status run_commands(std::string_view commands, std::string_view origin, ReplicaState::Bodies bodies,
                    ReplicaState& state, Effects& effects) {
  Runner runner{{commands}, origin, bodies, state, effects};
  while (!runner.in.rest.empty())
    if (Status s = runner.run(); !s.ok()) return s;
  return {};
}

}  // namespace weir::jobs
