#include "jobs/sqlite_tables.h"

#include <utility>

namespace weir::jobs {
namespace {

using base::Status;

// jobs.state
constexpr int64_t kWaiting = 0, kRunning = 1, kFinished = 2, kWithdrawn = 3;

}  // namespace

// The caller's transaction holds all of them; alone each is one of its own.
Status SqliteJournal::put(std::span<const Job> jobs) { return insert(jobs, kWaiting); }

Status SqliteJournal::put_claimed(std::span<const Job> jobs) { return insert(jobs, kRunning); }

Status SqliteJournal::insert(std::span<const Job> jobs, int64_t state) {
  const int64_t claims = state == kRunning ? 1 : 0;
  int64_t bytes = 0, count = 0;  // of those of one batch
  return as_one(sql_.connection(), [&]() -> Status {
    for (size_t i = 0; i < jobs.size(); ++i) {
      const Job& job = jobs[i];
      bytes += int64_t(job.body.size()), count += 1 - claims;
      Status status = sql_.run(
          "INSERT INTO jobs(batch, idx, state, attempts, due, label, model, target, fields, body, holder)"
          " VALUES(?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?)",
          std::string_view(job.id.batch), job.id.index, state, claims, std::string_view(job.label),
          std::string_view(job.model), std::string_view(job.target), std::string_view(job.fields), Blob{job.body},
          claims > 0 ? std::string_view(holder_) : std::string_view(""));
      const bool last = i + 1 == jobs.size() || jobs[i + 1].id.batch != job.id.batch;
      if (status.ok() && last) status = grow(job.id.batch, std::exchange(bytes, 0), std::exchange(count, 0));
      if (!status.ok()) return status;
    }
    return {};
  });
}

Status SqliteJournal::grow(std::string_view batch, int64_t bytes, int64_t waiting) {
  auto owner = sql_.one(
      "SELECT owner FROM batches WHERE id = ?", [](Statement& s) { return s.text(0); }, batch);
  if (!owner) return owner.error();
  if (!*owner) return {};
  Status status =
      sql_.run("UPDATE batches SET bytes = bytes + ?, waiting = waiting + ? WHERE id = ?", bytes, waiting, batch);
  return status.ok() && bytes != 0 ? change_use(sql_, **owner, {0, 0, bytes}) : status;
}

// The batch that was served longest ago goes first.
base::Result<std::optional<Job>> SqliteJournal::claim_one(base::WallTime now, ReplicaState::Bodies bodies) {
  std::optional<Job> job;
  auto status = sql_.each(
      "SELECT id, kind, owner, caller, host FROM batches b INDEXED BY batches_waiting WHERE held = 0 AND waiting > 0"
      " AND EXISTS(SELECT 1 FROM jobs INDEXED BY jobs_due WHERE batch = b.id AND state = 0 AND due <= ?)"
      " ORDER BY served, created LIMIT 1",
      [&](Statement& s) {
        job.emplace().id.batch = s.text(0);
        job->kind = s.text(1);
        job->requester = {s.text(2), s.text(3), s.text(4)};
      },
      now);
  if (!status.ok()) return status;
  if (!job) return job;
  status = sql_.each(
      "SELECT idx, label, model, target, fields, CASE WHEN ? THEN body END, attempts FROM jobs"
      " WHERE batch = ? AND state = 0 AND due <= ? ORDER BY idx LIMIT 1",
      [&](Statement& s) {
        job->id.index = uint64_t(s.number(0));
        job->label = s.text(1), job->model = s.text(2), job->target = s.text(3), job->fields = s.text(4);
        job->body = s.text(5), job->attempts = uint32_t(s.number(6));
      },
      int64_t(bodies == ReplicaState::Bodies::kRead), std::string_view(job->id.batch), now);
  if (!status.ok()) return status;
  status = sql_.run("UPDATE jobs SET state = 1, attempts = attempts + 1, holder = ? WHERE batch = ? AND idx = ?",
                    std::string_view(holder_), std::string_view(job->id.batch), job->id.index);
  if (status.ok())
    status = sql_.run(
        "UPDATE batches SET served = 1 + (SELECT max(served) FROM batches), waiting = waiting - 1 WHERE id = ?",
        std::string_view(job->id.batch));
  if (!status.ok()) return status;
  return job;
}

base::Result<std::vector<Job>> SqliteJournal::claim(size_t most, base::WallTime now, ReplicaState::Bodies bodies) {
  std::vector<Job> out;
  Status status = as_one(sql_.connection(), [&]() -> Status {
    while (out.size() < most) {
      auto job = claim_one(now, bodies);
      if (!job) return job.error();
      if (!*job) break;
      out.push_back(*std::move(*job));
    }
    return {};
  });
  if (!status.ok()) return status;
  return out;
}

base::Result<bool> SqliteJournal::holds(const JobId& id) {
  auto there = sql_.number("SELECT EXISTS(SELECT 1 FROM jobs WHERE batch = ? AND idx = ? AND state = 1 AND holder = ?)",
                           std::string_view(id.batch), id.index, std::string_view(holder_));
  if (!there) return there.error();
  return *there != 0;
}

// The answer takes the place of the request.
base::Result<bool> SqliteJournal::finish(const JobId& id, const Outcome& outcome) {
  bool there = false;
  Status status = as_one(sql_.connection(), [&]() -> Status {
    int64_t request = 0, waited = 0;
    Status s = sql_.each(
        "SELECT length(body), state FROM jobs WHERE batch = ? AND idx = ? AND state IN (0, 1)",
        [&](Statement& row) { there = true, request = row.number(0), waited = row.number(1) == kWaiting ? 1 : 0; },
        std::string_view(id.batch), id.index);
    if (!s.ok() || !there) return s;
    s = sql_.run(
        "UPDATE jobs SET state = 2, status = ?, answer_fields = ?, answer = ?, body = NULL WHERE batch = ? AND idx = ?",
        int64_t(outcome.status), std::string_view(outcome.fields), Blob{outcome.body}, std::string_view(id.batch),
        id.index);
    return s.ok() ? grow(id.batch, int64_t(outcome.body.size()) - request, -waited) : s;
  });
  if (!status.ok()) return status;
  return there;
}

Status SqliteJournal::release(const JobId& id, base::WallTime when) {
  return as_one(sql_.connection(), [&]() -> Status {
    Status s = sql_.run(
        "UPDATE jobs SET state = 0, attempts = max(attempts - 1, 0), due = ?"
        " WHERE batch = ? AND idx = ? AND state = 1 AND holder = ?",
        when, std::string_view(id.batch), id.index, std::string_view(holder_));
    return s.ok() && sql_.connection().changes() > 0 ? grow(id.batch, 0, 1) : s;
  });
}

base::Result<std::vector<FinishedJob>> SqliteJournal::list(const std::string& batch, uint64_t from, uint64_t bytes) {
  std::vector<FinishedJob> out;
  uint64_t next = from, read = 0;
  for (bool more = true; more && (out.empty() || read < bytes);) {
    more = false;
    auto status = sql_.each(
        "SELECT idx, label, state, status, answer_fields, answer FROM jobs WHERE batch = ? AND idx >= ?"
        " ORDER BY idx LIMIT 1",
        [&](Statement& s) {
          FinishedJob job{{batch, uint64_t(s.number(0))}, s.text(1), {}};
          if (s.number(2) == kFinished) job.outcome = Outcome{int(s.number(3)), s.text(4), s.text(5)};
          next = job.id.index + 1;
          read += job.label.size() + (job.outcome ? job.outcome->body.size() : 0) + 64;
          out.push_back(std::move(job));
          more = true;
        },
        std::string_view(batch), next);
    if (!status.ok()) return status;
  }
  return out;
}

base::Result<Counts> SqliteJournal::count(const std::string& batch) {
  Counts out;
  auto status = sql_.each(
      "SELECT state, coalesce(status, 0) >= 400 OR coalesce(status, 0) = 0, count(*) FROM jobs WHERE batch = ?"
      " GROUP BY 1, 2",
      [&](Statement& s) {
        const uint64_t n = uint64_t(s.number(2));
        out.total += n;
        if (s.number(0) == kWaiting) out.waiting += n;
        if (s.number(0) == kRunning) out.running += n;
        if (s.number(0) == kFinished) (s.number(1) ? out.failed : out.succeeded) += n;
      },
      std::string_view(batch));
  if (!status.ok()) return status;
  return out;
}

Status SqliteJournal::withdraw(const std::string& batch) {
  static_assert(kWithdrawn == 3);
  return as_one(sql_.connection(), [&]() -> Status {
    int64_t bytes = 0, count = 0;
    Status s = sql_.each(
        "SELECT coalesce(sum(length(body)), 0), count(*) FROM jobs WHERE batch = ? AND state = 0",
        [&](Statement& row) { bytes = row.number(0), count = row.number(1); }, std::string_view(batch));
    if (!s.ok() || count == 0) return s;
    s = sql_.run("UPDATE jobs SET state = 3, body = NULL WHERE batch = ? AND state = 0", std::string_view(batch));
    return s.ok() ? grow(batch, -bytes, -count) : s;
  });
}

Status SqliteJournal::remove(const std::string& batch) {
  return as_one(sql_.connection(), [&]() -> Status {
    int64_t bytes = 0, waiting = 0;
    Status s = sql_.each(
        "SELECT coalesce(sum(length(body)), 0) + coalesce(sum(length(answer)), 0), coalesce(sum(state = 0), 0)"
        " FROM jobs WHERE batch = ?",
        [&](Statement& row) { bytes = row.number(0), waiting = row.number(1); }, std::string_view(batch));
    if (s.ok()) s = sql_.run("DELETE FROM jobs WHERE batch = ?", std::string_view(batch));
    return s.ok() ? grow(batch, -bytes, -waiting) : s;
  });
}

}  // namespace weir::jobs
