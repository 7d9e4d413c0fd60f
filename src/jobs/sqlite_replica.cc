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
  if (auto s = sql_.run("DELETE FROM entries WHERE sequence <= ?", forget); !s.ok()) return s;
  auto status = sql_.run("INSERT OR IGNORE INTO entries(id, sequence) VALUES(?, ?)", id, sequence);
  if (!status.ok()) return status;
  return sql_.connection().changes() > 0;
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
  if (auto s = sql_.run("UPDATE jobs SET state = 0, holder = '' WHERE state = 1 AND holder = ?", holder); !s.ok())
    return s;
  if (auto s = sql_.run("DELETE FROM parts WHERE file IN (SELECT file FROM uploads WHERE holder = ?)"
                        " AND file NOT IN (SELECT id FROM files)",
                        holder);
      !s.ok())
    return s;
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

}  // namespace weir::jobs
