#include "jobs/sqlite_tables.h"

namespace weir::jobs {
namespace {

using base::Status;

File file_of(const Statement& s) {
  return {s.text(0), s.text(1), s.text(2), s.text(3), uint64_t(s.number(4)), s.time(5), s.time(6)};
}

Batch batch_of(const Statement& s) {
  const auto jobs = s.number(9) != 0 ? Batch::Jobs::kWait : Batch::Jobs::kRun;
  return {s.text(0), s.text(1), {s.text(2), s.text(3), s.text(4)}, s.text(5), s.text(6), s.time(7), s.time(8), jobs};
}
int64_t is_held(const Batch& batch) { return batch.jobs == Batch::Jobs::kWait ? 1 : 0; }

// A JSON list of words, for json_each(); they hold no character that JSON escapes.
std::string list_of(std::span<const std::string_view> words) {
  std::string out = "[";
  for (std::string_view word : words) (((out += out.size() > 1 ? ",\"" : "\"") += word) += '"');
  return out + "]";
}

// A tenant's or a host's records have one of two names: ShardJobs::requester_of()'s, or the one that its sessions and
// stored responses have on all nodes (marshal/tenant_name.h). Empty: that is its only one.
std::string other_name(std::string_view owner) {
  constexpr std::string_view kNames[][2] = {{"tenant:", "key "}, {"host:", "host "}};
  for (const auto& [one, other] : kNames) {
    if (owner.starts_with(one)) return std::string(other).append(owner.substr(one.size()));
    if (owner.starts_with(other)) return std::string(one).append(owner.substr(other.size()));
  }
  return {};
}

}  // namespace

Status change_use(Statements& sql, std::string_view owner, const UseChange& change) {
  Status status = sql.run(
      "INSERT INTO usage(owner, records, files, bytes) VALUES(?1, ?2, ?3, ?4) ON CONFLICT(owner)"
      " DO UPDATE SET records = records + ?2, files = files + ?3, bytes = bytes + ?4",
      owner, change.records, change.files, change.bytes);
  if (!status.ok() || change.records >= 0) return status;
  return sql.run("DELETE FROM usage WHERE owner = ? AND records <= 0", owner);
}

Status SqliteFiles::append(std::string_view id, uint64_t part, std::string_view bytes, std::string_view owner) {
  return as_one(sql_.connection(), [&]() -> Status {
    Status s = sql_.run("INSERT INTO parts(file, part, bytes) VALUES(?, ?, ?)", id, part, Blob{bytes});
    if (!s.ok()) return s;
    auto begun = sql_.one(
        "SELECT owner FROM uploads WHERE file = ?", [](Statement& row) { return row.text(0); }, id);
    if (!begun) return begun.error();
    s = sql_.run(
        "INSERT INTO uploads(file, holder, owner, bytes) VALUES(?1, ?2, ?3, ?4) ON CONFLICT(file)"
        " DO UPDATE SET holder = ?2, bytes = bytes + ?4",
        id, std::string_view(holder_), owner, uint64_t(bytes.size()));
    if (!s.ok()) return s;
    const std::string_view whose = *begun ? std::string_view(**begun) : owner;
    return change_use(sql_, whose, {*begun ? 0 : 1, 0, int64_t(bytes.size())});
  });
}

base::Result<uint64_t> SqliteFiles::appended(std::string_view id) {
  auto bytes = sql_.number("SELECT bytes FROM uploads WHERE file = ?", id);
  if (!bytes) return bytes.error();
  return uint64_t(*bytes);
}

// The file is added, or is gone.
Status SqliteFiles::end_upload(std::string_view id) {
  auto upload = sql_.one(
      "SELECT owner, bytes FROM uploads WHERE file = ?", [](Statement& s) { return std::pair(s.text(0), s.number(1)); },
      id);
  if (!upload) return upload.error();
  if (!*upload) return {};
  if (auto s = sql_.run("DELETE FROM uploads WHERE file = ?", id); !s.ok()) return s;
  return change_use(sql_, (*upload)->first, {-1, 0, -(*upload)->second});
}

Status SqliteFiles::add(const File& file) {
  return as_one(sql_.connection(), [&]() -> Status {
    if (auto s = end_upload(file.id); !s.ok()) return s;
    Status status =
        sql_.run("INSERT INTO files(id, owner, name, purpose, bytes, created, expires) VALUES(?, ?, ?, ?, ?, ?, ?)",
                 std::string_view(file.id), std::string_view(file.owner), std::string_view(file.name),
                 std::string_view(file.purpose), file.bytes, file.created, file.expires);
    return status.ok() ? change_use(sql_, file.owner, {1, 1, int64_t(file.bytes)}) : status;
  });
}

base::Result<std::optional<File>> SqliteFiles::find(std::string_view owner, std::string_view id) {
  return sql_.one("SELECT id, owner, name, purpose, bytes, created, expires FROM files WHERE id = ? AND owner = ?",
                  file_of, id, owner);
}

base::Result<std::vector<File>> SqliteFiles::list(std::string_view owner, std::string_view purpose, ListOrder order,
                                                  std::string_view after, size_t most) {
  constexpr const char* kNewestFirst =
      "SELECT id, owner, name, purpose, bytes, created, expires FROM files WHERE owner = ?1"
      " AND purpose <> '' AND (?2 = '' OR purpose = ?2)"
      " AND (?3 = '' OR rowid < (SELECT rowid FROM files WHERE id = ?3 AND owner = ?1)) ORDER BY rowid DESC LIMIT ?4";
  constexpr const char* kOldestFirst =
      "SELECT id, owner, name, purpose, bytes, created, expires FROM files WHERE owner = ?1"
      " AND purpose <> '' AND (?2 = '' OR purpose = ?2)"
      " AND (?3 = '' OR rowid > (SELECT rowid FROM files WHERE id = ?3 AND owner = ?1)) ORDER BY rowid LIMIT ?4";
  return sql_.all(order == ListOrder::kNewestFirst ? kNewestFirst : kOldestFirst, file_of, owner, purpose, after,
                  uint64_t(most));
}

base::Result<std::string> SqliteFiles::read(std::string_view id, uint64_t part) {
  std::string out;
  auto status = sql_.each(
      "SELECT bytes FROM parts WHERE file = ? AND part = ?", [&](Statement& s) { out = s.text(0); }, id, part);
  if (!status.ok()) return status;
  return out;
}

Status SqliteFiles::remove(std::string_view id) {
  Status status = as_one(sql_.connection(), [&]() -> Status {
    auto file = sql_.one(
        "SELECT owner, bytes FROM files WHERE id = ?", [](Statement& s) { return std::pair(s.text(0), s.number(1)); },
        id);
    if (!file) return file.error();
    if (*file)
      if (auto s = change_use(sql_, (*file)->first, {-1, -1, -(*file)->second}); !s.ok()) return s;
    if (auto s = sql_.run("DELETE FROM files WHERE id = ?", id); !s.ok()) return s;
    if (auto s = sql_.run("DELETE FROM parts WHERE file = ?", id); !s.ok()) return s;
    return end_upload(id);
  });
  if (!status.ok() || sql_.connection().in_transaction()) return status;
  return sql_.run("PRAGMA incremental_vacuum(1024)");
}

base::Result<std::vector<std::string>> SqliteFiles::expired(base::WallTime now, size_t most) {
  return sql_.all(
      "SELECT id FROM files WHERE expires <= ? LIMIT ?", [](const Statement& s) { return s.text(0); }, now,
      uint64_t(most));
}

base::Result<Files::Use> SqliteFiles::use(std::string_view owner) {
  Use out;
  const std::string other = other_name(owner);
  auto status = sql_.each(
      "SELECT files, bytes FROM usage WHERE owner IN (?, ?)",
      [&](Statement& s) { out.files += uint64_t(s.number(0)), out.bytes += uint64_t(s.number(1)); }, owner,
      std::string_view(other));
  if (!status.ok()) return status;
  return out;
}

Status SqliteBatches::add(const Batch& batch) {
  const uint64_t bytes = kBatchBytes + batch.document.size();
  return as_one(sql_.connection(), [&]() -> Status {
    Status status = sql_.run(
        "INSERT INTO batches(id, kind, owner, caller, host, state, document, created, expires, held, waiting,"
        " served, bytes, version) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, ?, 0)",
        std::string_view(batch.id), std::string_view(batch.kind), std::string_view(batch.requester.owner),
        std::string_view(batch.requester.caller), std::string_view(batch.requester.host), std::string_view(batch.state),
        std::string_view(batch.document), batch.created, batch.expires, is_held(batch), bytes);
    return status.ok() ? change_use(sql_, batch.requester.owner, {1, 0, int64_t(bytes)}) : status;
  });
}

base::Result<bool> SqliteBatches::change(const Batch& batch) {
  bool there = false;
  Status status = as_one(sql_.connection(), [&]() -> Status {
    std::string owner;
    int64_t more = int64_t(batch.document.size());
    Status s = sql_.each(
        "SELECT owner, length(CAST(document AS BLOB)) FROM batches WHERE id = ?",
        [&](Statement& row) { there = true, owner = row.text(0), more -= row.number(1); }, std::string_view(batch.id));
    if (!s.ok() || !there) return s;
    s = sql_.run(
        "UPDATE batches SET state = ?, document = ?, expires = ?, held = ?, bytes = bytes + ?, version = version + 1"
        " WHERE id = ?",
        std::string_view(batch.state), std::string_view(batch.document), batch.expires, is_held(batch), more,
        std::string_view(batch.id));
    return s.ok() && more != 0 ? change_use(sql_, owner, {0, 0, more}) : s;
  });
  if (!status.ok()) return status;
  return there;
}

base::Result<std::optional<Batch>> SqliteBatches::find(std::string_view owner, std::string_view id) {
  return sql_.one(
      "SELECT id, kind, owner, caller, host, state, document, created, expires, held FROM batches WHERE id = ? AND "
      "owner = ?",
      batch_of, id, owner);
}

base::Result<std::vector<Batch>> SqliteBatches::list(std::string_view owner, std::string_view kind, ListOrder order,
                                                     std::string_view after, size_t most) {
  constexpr const char* kNewestFirst =
      "SELECT id, kind, owner, caller, host, state, document, created, expires, held FROM batches"
      " WHERE owner = ?1 AND kind = ?2"
      " AND (?3 = '' OR rowid < (SELECT rowid FROM batches WHERE id = ?3 AND owner = ?1)) ORDER BY rowid DESC LIMIT ?4";
  constexpr const char* kOldestFirst =
      "SELECT id, kind, owner, caller, host, state, document, created, expires, held FROM batches"
      " WHERE owner = ?1 AND kind = ?2"
      " AND (?3 = '' OR rowid > (SELECT rowid FROM batches WHERE id = ?3 AND owner = ?1)) ORDER BY rowid LIMIT ?4";
  return sql_.all(order == ListOrder::kNewestFirst ? kNewestFirst : kOldestFirst, batch_of, owner, kind, after,
                  uint64_t(most));
}

base::Result<std::vector<Batch>> SqliteBatches::in_states(std::string_view kind,
                                                          std::span<const std::string_view> states, size_t most) {
  const std::string words = list_of(states);
  return sql_.all(
      "SELECT id, kind, owner, caller, host, state, document, created, expires, held FROM batches"
      " WHERE kind = ? AND state IN (SELECT value FROM json_each(?)) ORDER BY rowid LIMIT ?",
      batch_of, kind, std::string_view(words), uint64_t(most));
}

base::Result<std::vector<Batch>> SqliteBatches::idle(std::string_view kind, std::span<const std::string_view> states,
                                                     size_t most) {
  const std::string words = list_of(states);
  return sql_.all(
      "SELECT id, kind, owner, caller, host, state, document, created, expires, held FROM batches b"
      " WHERE kind = ? AND state IN (SELECT value FROM json_each(?))"
      " AND NOT EXISTS(SELECT 1 FROM jobs WHERE batch = b.id AND state = 0)"
      " AND NOT EXISTS(SELECT 1 FROM jobs WHERE batch = b.id AND state = 1) ORDER BY rowid LIMIT ?",
      batch_of, kind, std::string_view(words), uint64_t(most));
}

base::Result<std::vector<Batch>> SqliteBatches::due(std::string_view kind, std::span<const std::string_view> states,
                                                    base::WallTime now, size_t most) {
  const std::string words = list_of(states);
  return sql_.all(
      "SELECT id, kind, owner, caller, host, state, document, created, expires, held FROM batches"
      " WHERE kind = ? AND state IN (SELECT value FROM json_each(?)) AND expires <= ? LIMIT ?",
      batch_of, kind, std::string_view(words), now, uint64_t(most));
}

base::Result<uint64_t> SqliteBatches::count(std::string_view owner, std::span<const std::string_view> states) {
  const std::string words = list_of(states);
  auto n = sql_.number("SELECT count(*) FROM batches WHERE owner = ? AND state IN (SELECT value FROM json_each(?))",
                       owner, std::string_view(words));
  if (!n) return n.error();
  return uint64_t(*n);
}

Status SqliteBatches::remove(std::string_view id) {
  return as_one(sql_.connection(), [&]() -> Status {
    auto batch = sql_.one(
        "SELECT owner, bytes FROM batches WHERE id = ?", [](Statement& s) { return std::pair(s.text(0), s.number(1)); },
        id);
    if (!batch) return batch.error();
    if (!*batch) return {};
    if (auto s = sql_.run("DELETE FROM jobs WHERE batch = ?", id); !s.ok()) return s;
    if (auto s = sql_.run("DELETE FROM batches WHERE id = ?", id); !s.ok()) return s;
    return change_use(sql_, (*batch)->first, {-1, 0, -(*batch)->second});
  });
}

}  // namespace weir::jobs
