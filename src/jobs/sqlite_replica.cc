#include <unistd.h>

#include "jobs/sqlite_tables.h"

namespace weir::jobs {

using base::Status;

base::Result<ReplicaState::Position> SqliteReplica::position() {
  ReplicaState::Position out;
  auto status = sql_.each("SELECT identity, sequence FROM replica", [&](Statement& s) {
    out = {s.text(0), uint64_t(s.number(1))};
  });
  if (!status.ok()) return status;
  return out;
}

Status SqliteReplica::set_position(const ReplicaState::Position& position) {
  return sql_.run(
      "INSERT INTO replica(one, identity, sequence, duties) VALUES(1, ?1, ?2, '')"
      " ON CONFLICT(one) DO UPDATE SET identity = ?1, sequence = ?2",
      std::string_view(position.identity), position.sequence);
}

base::Result<bool> SqliteReplica::take_id(std::string_view id, uint64_t sequence, uint64_t forget) {
  auto status = sql_.run("INSERT OR IGNORE INTO entries(id, sequence) VALUES(?, ?)", id, sequence);
  if (!status.ok()) return status;
  if (sql_.connection().changes() == 0) return false;
  if (auto s = sql_.run("DELETE FROM entries WHERE sequence <= ?", forget); !s.ok()) return s;
  return true;
}

base::Result<ReplicaState::TakenId> SqliteReplica::newest_entry() {
  ReplicaState::TakenId out;
  auto status = sql_.each("SELECT id, sequence FROM entries ORDER BY sequence DESC LIMIT 1", [&](Statement& s) {
    out = {s.text(0), uint64_t(s.number(1))};
  });
  if (!status.ok()) return status;
  return out;
}

base::Result<bool> SqliteReplica::has_file(std::string_view id) {
  auto there = sql_.number(
      "SELECT EXISTS(SELECT 1 FROM files WHERE id = ?1) OR EXISTS(SELECT 1 FROM parts WHERE file = ?1)"
      " OR EXISTS(SELECT 1 FROM uploads WHERE file = ?1)",
      id);
  if (!there) return there.error();
  return *there != 0;
}

base::Result<uint64_t> SqliteReplica::version(std::string_view batch) {
  auto version = sql_.number("SELECT version FROM batches WHERE id = ?", batch);
  if (!version) return version.error();
  return uint64_t(*version);
}

base::Result<std::vector<std::string>> SqliteReplica::holders() {
  return sql_.all("SELECT holder FROM jobs WHERE state = 1 UNION SELECT holder FROM uploads ORDER BY 1",
                  [](const Statement& s) { return s.text(0); });
}

Status SqliteReplica::free(std::string_view holder) {
  if (auto s = sql_.run("UPDATE batches SET waiting = waiting +"
                        " (SELECT count(*) FROM jobs WHERE batch = batches.id AND state = 1 AND holder = ?1)"
                        " WHERE id IN (SELECT batch FROM jobs WHERE state = 1 AND holder = ?1)",
                        holder);
      !s.ok())
    return s;
  if (auto s = sql_.run("UPDATE jobs SET state = 0, holder = '' WHERE state = 1 AND holder = ?", holder); !s.ok())
    return s;
  if (auto s = sql_.run("DELETE FROM parts WHERE file IN (SELECT file FROM uploads WHERE holder = ?)"
                        " AND file NOT IN (SELECT id FROM files)",
                        holder);
      !s.ok())
    return s;
  auto uploads = sql_.all(
      "SELECT owner, count(*), sum(bytes) FROM uploads WHERE holder = ? GROUP BY owner ORDER BY owner",
      [](const Statement& s) {
        return std::pair(s.text(0), UseChange{-s.number(1), 0, -s.number(2)});
      },
      holder);
  if (!uploads) return uploads.error();
  for (const auto& [owner, less] : *uploads)
    if (auto s = change_use(sql_, owner, less); !s.ok()) return s;
  return sql_.run("DELETE FROM uploads WHERE holder = ?", holder);
}

base::Result<std::string> SqliteReplica::duty_holder() {
  std::string out;
  auto status = sql_.each("SELECT duties FROM replica", [&](Statement& s) { out = s.text(0); });
  if (!status.ok()) return status;
  return out;
}

// The row is there once an entry is applied; the first one may be this.
Status SqliteReplica::set_duty_holder(std::string_view holder) {
  return sql_.run(
      "INSERT INTO replica(one, identity, sequence, duties) VALUES(1, '', 0, ?1)"
      " ON CONFLICT(one) DO UPDATE SET duties = ?1",
      holder);
}

Status SqliteReplica::save(const std::string& path) {
  (void)::unlink(path.c_str());
  sql_.connection().stop_by(stopping_);
  Status status = sql_.run("VACUUM INTO ?", std::string_view(path));
  sql_.connection().stop_by(nullptr);
  return status;
}

// Entries of before have no place in the log that begins.
Status SqliteReplica::save_beginning(const std::string& path, const ReplicaState::Position& position) {
  if (Status s = save(path); !s.ok()) return s;
  if (Status s = sql_.run("ATTACH ? AS beginning", std::string_view(path)); !s.ok()) return s;
  Status status = sql_.run("UPDATE beginning.replica SET identity = ?, sequence = ?",
                           std::string_view(position.identity), position.sequence);
  if (status.ok()) status = sql_.run("UPDATE beginning.entries SET sequence = 0");
  (void)sql_.connection().execute("DETACH beginning");
  return status;
}

// The file comes from another node, or from whoever can write to the log.
Status SqliteReplica::load(const std::string& path, const ReplicaState::Position& position, int64_t application,
                           int64_t version) {
  if (Status s = sql_.run("ATTACH ? AS snapshot", std::string_view(path)); !s.ok()) return s;
  Connection& c = sql_.connection();
  c.stop_by(stopping_);
  Status status = check_attached(position, application, version);
  if (status.ok()) status = c.execute("BEGIN IMMEDIATE");
  if (status.ok()) status = copy_attached();
  c.stop_by(nullptr);
  if (status.ok()) status = c.execute("COMMIT");
  if (c.in_transaction()) (void)c.execute("ROLLBACK");
  (void)c.execute("DETACH snapshot");
  return status;
}

Status SqliteReplica::check_attached(const ReplicaState::Position& position, int64_t application, int64_t version) {
  Connection& c = sql_.connection();
  auto other = c.pragma("SELECT count(*) FROM snapshot.sqlite_schema WHERE type NOT IN ('table', 'index')");
  if (!other) return other.error();
  auto its_application = c.pragma("PRAGMA snapshot.application_id"),
       its_version = c.pragma("PRAGMA snapshot.user_version");
  if (!its_application) return its_application.error();
  if (!its_version) return its_version.error();
  auto sound = c.prepare("PRAGMA snapshot.quick_check(1)");
  if (!sound) return sound.error();
  auto row = sound->step();
  if (!row) return row.error();
  auto there = c.prepare("SELECT identity, sequence FROM snapshot.replica");
  if (!there) return there.error();
  auto placed = there->step();
  if (!placed) return placed.error();
  const bool good = *row && sound->text(0) == "ok" && *other == 0 && *its_application == application &&
                    *its_version == version && *placed && there->text(0) == position.identity &&
                    uint64_t(there->number(1)) == position.sequence;
  return good ? check_entries() : base::failure(base::Code::kDataLoss, "a snapshot of the jobs' log cannot be used");
}

// An entry of this copy that the snapshot is old enough to remember, and does not, was lost: it would be gone for good.
// One that begins another log remembers ids alone.
Status SqliteReplica::check_entries() {
  auto lost = sql_.connection().pragma(
      "SELECT EXISTS(SELECT 1 FROM (SELECT id, sequence, other FROM main.entries,"
      " (SELECT (SELECT identity FROM main.replica) IS NOT (SELECT identity FROM snapshot.replica) other)"
      " ORDER BY sequence DESC LIMIT 1) own"
      " WHERE (other OR own.sequence >= coalesce((SELECT min(sequence) FROM snapshot.entries), 0))"
      " AND NOT EXISTS(SELECT 1 FROM snapshot.entries s WHERE s.id = own.id AND (other OR s.sequence = "
      "own.sequence)))");
  if (!lost) return lost.error();
  return *lost == 0 ? Status() : log_is_another();
}

// In the order of rowid, which lists go by.
Status SqliteReplica::copy_attached() {
  for (const char* table : {"files", "parts", "batches", "usage", "jobs", "uploads", "replica", "entries"}) {
    const std::string name(table), sql = "DELETE FROM main." + name + "; INSERT INTO main." + name +
                                         " SELECT * FROM snapshot." + name + " ORDER BY rowid;";
    if (Status s = sql_.connection().execute(sql.c_str()); !s.ok()) return s;
  }
  return {};
}

}  // namespace weir::jobs
