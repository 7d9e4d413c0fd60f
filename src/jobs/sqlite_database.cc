// Opening: what is in the file, whose it is, and what a process that died has left. The tables are made here.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "jobs/database.h"
#include "jobs/sqlite_tables.h"

namespace weir::jobs {
namespace {

using base::Code;
using base::failure;
using base::Status;

constexpr int64_t kApplication = 0x77656972;  // "weir": PRAGMA application_id
constexpr int64_t kVersion = 3;               // PRAGMA user_version
constexpr uint64_t kPage = 4096;

// jobs.holder and uploads.holder say whose a claimed job and an upload are. batches.held: its jobs are not claimed yet.
// batches.waiting counts its jobs of state 0, and usage what an owner has: however much is kept, nobody has to look
// through all of it. replica and entries are a copy's of a cluster's journal.
constexpr const char* kTables = R"(
CREATE TABLE files(id TEXT PRIMARY KEY, owner TEXT NOT NULL, name TEXT NOT NULL, purpose TEXT NOT NULL,
                   bytes INTEGER NOT NULL, created INTEGER NOT NULL, expires INTEGER NOT NULL);
CREATE INDEX files_of ON files(owner);
CREATE INDEX files_expire ON files(expires);
CREATE TABLE parts(file TEXT NOT NULL, part INTEGER NOT NULL, bytes BLOB NOT NULL);
CREATE UNIQUE INDEX parts_of ON parts(file, part);
CREATE TABLE uploads(file TEXT PRIMARY KEY, holder TEXT NOT NULL, owner TEXT NOT NULL, bytes INTEGER NOT NULL);
CREATE TABLE batches(id TEXT PRIMARY KEY, kind TEXT NOT NULL, owner TEXT NOT NULL, caller TEXT NOT NULL,
                     host TEXT NOT NULL, state TEXT NOT NULL, document TEXT NOT NULL, created INTEGER NOT NULL,
                     expires INTEGER NOT NULL, held INTEGER NOT NULL, waiting INTEGER NOT NULL, served INTEGER NOT NULL,
                     bytes INTEGER NOT NULL, version INTEGER NOT NULL);
CREATE INDEX batches_of ON batches(owner, kind);
CREATE INDEX batches_in ON batches(kind, state, expires);
CREATE INDEX batches_counted ON batches(owner, state);
CREATE INDEX batches_served ON batches(served);
CREATE INDEX batches_waiting ON batches(served, created) WHERE held = 0 AND waiting > 0;
CREATE TABLE usage(owner TEXT PRIMARY KEY, records INTEGER NOT NULL, files INTEGER NOT NULL, bytes INTEGER NOT NULL);
CREATE TABLE jobs(batch TEXT NOT NULL, idx INTEGER NOT NULL, state INTEGER NOT NULL, attempts INTEGER NOT NULL,
                  due INTEGER NOT NULL, label TEXT NOT NULL, model TEXT NOT NULL, target TEXT NOT NULL,
                  fields TEXT NOT NULL, body BLOB, status INTEGER, answer_fields TEXT, answer BLOB,
                  holder TEXT NOT NULL);
CREATE UNIQUE INDEX jobs_of ON jobs(batch, idx);
CREATE INDEX jobs_in ON jobs(batch, state, idx, due);
CREATE INDEX jobs_due ON jobs(batch, due) WHERE state = 0;
CREATE INDEX jobs_counted ON jobs(batch, state, status);
CREATE INDEX jobs_held ON jobs(holder) WHERE state = 1;
CREATE TABLE replica(one INTEGER PRIMARY KEY CHECK(one = 1), identity TEXT NOT NULL, sequence INTEGER NOT NULL,
                     duties TEXT NOT NULL);
CREATE TABLE entries(id TEXT PRIMARY KEY, sequence INTEGER NOT NULL);
CREATE INDEX entries_in ON entries(sequence);
)";

// The file takes so many bytes at most.
Status allow(Connection& connection, uint64_t bytes) {
  constexpr uint64_t kMostPages = 0xfffffffe;  // SQLite's
  return connection.execute(("PRAGMA max_page_count = " + std::to_string(std::min(bytes / kPage, kMostPages))).c_str());
}

class SqliteCopyFiles final : public ReplicaState::CopyFiles {
 public:
  SqliteCopyFiles(SqliteReplica& replica, std::string folder) : replica_(replica), folder_(std::move(folder)) {}
  std::string path_of(const std::string& name) const override { return folder_ + '/' + name; }
  Status save(const std::string& name) override { return replica_.save(path_of(name)); }
  Status save_beginning(const std::string& name, const ReplicaState::Position& position) override {
    return replica_.save_beginning(path_of(name), position);
  }
  Status load(const std::string& name, const ReplicaState::Position& position) override {
    return replica_.load(path_of(name), position, kApplication, kVersion);
  }
  void stop_by(const std::atomic<bool>& stopping) override { replica_.stop_by(stopping); }

 private:
  SqliteReplica& replica_;
  const std::string folder_;
};

class SqliteDatabase final : public Database, Storage, ReplicaState {
 public:
  SqliteDatabase(Connection connection, std::string folder)
      : Storage(journal_, batches_, files_),
        statements_(std::move(connection)),
        journal_(statements_, holder_),
        batches_(statements_),
        files_(statements_, holder_),
        replica_(statements_),
        copies_(replica_, std::move(folder)) {}

  Storage& storage() override { return *this; }
  ReplicaState& replica() override { return *this; }
  Status prepare(uint64_t most_bytes, Whose whose);
  base::Result<uint64_t> used() override {
    auto all = statements_.connection().pragma("PRAGMA page_count");
    if (!all) return all.error();
    auto free = statements_.connection().pragma("PRAGMA freelist_count");
    if (!free) return free.error();
    return uint64_t(*all - *free) * kPage;
  }

 private:
  Status together(Status (*run)(void*), void* work) override;
  Status execute(const char* sql) { return statements_.connection().execute(sql); }

  // ReplicaState
  void act_as(std::string holder) override { holder_ = std::move(holder); }
  base::Result<std::vector<Job>> claim(size_t most, base::WallTime now, Bodies bodies) override {
    return journal_.claim(most, now, bodies);
  }
  Status begin() override { return execute("BEGIN IMMEDIATE"); }
  Status commit() override { return execute("COMMIT"); }
  void rollback() override {
    if (statements_.connection().in_transaction()) (void)execute("ROLLBACK");
  }
  bool in_transaction() const override { return statements_.connection().in_transaction(); }
  // Outside of a transaction a mark begins one, and keeping it commits.
  Status mark() override { return in_transaction() ? execute("SAVEPOINT mark") : no_room_on_disk(); }
  Status keep() override { return in_transaction() ? execute("RELEASE mark") : no_room_on_disk(); }
  void undo() override {
    if (in_transaction()) (void)execute("ROLLBACK TO mark; RELEASE mark");
  }
  base::Result<Position> position() override { return replica_.position(); }
  Status set_position(const Position& position) override { return replica_.set_position(position); }
  base::Result<bool> take_id(std::string_view id, uint64_t sequence, uint64_t forget) override {
    return replica_.take_id(id, sequence, forget);
  }
  base::Result<TakenId> newest_entry() override { return replica_.newest_entry(); }
  base::Result<bool> has_file(std::string_view id) override { return replica_.has_file(id); }
  base::Result<uint64_t> version(std::string_view batch) override { return replica_.version(batch); }
  base::Result<std::vector<std::string>> holders() override { return replica_.holders(); }
  Status free(std::string_view holder) override { return replica_.free(holder); }
  base::Result<std::string> duty_holder() override { return replica_.duty_holder(); }
  Status set_duty_holder(std::string_view holder) override { return replica_.set_duty_holder(holder); }
  CopyFiles& copies() override { return copies_; }
  void tidy() override { (void)execute("PRAGMA incremental_vacuum(1024)"); }

  Statements statements_;
  std::string holder_;
  SqliteJournal journal_;
  SqliteBatches batches_;
  SqliteFiles files_;
  SqliteReplica replica_;
  SqliteCopyFiles copies_;
};

Status foreign(std::string what) {
  return failure(Code::kFailedPrecondition, "jobs.path: it " + std::move(what) + "; nothing was changed in it");
}

// A file of another program, and one that another version has written, are not touched.
Status make_or_check(Connection& c) {
  auto application = c.pragma("PRAGMA application_id");
  if (!application && application.error().code != Code::kDataLoss) return application.error();
  if (!application) return foreign("is no database: " + application.error().text);
  auto tables = c.pragma("SELECT count(*) FROM sqlite_schema");
  if (!tables) return foreign("is damaged: " + tables.error().text);
  auto version = c.pragma("PRAGMA user_version");
  if (!version) return version.error();
  if (*application == 0 && *tables == 0 && *version == 0) {
    std::string sql = "BEGIN; PRAGMA application_id = " + std::to_string(kApplication) +
                      "; PRAGMA user_version = " + std::to_string(kVersion) + ";" + kTables + "COMMIT;";
    return c.execute(sql.c_str());
  }
  if (*application != kApplication) return foreign("belongs to another program");
  if (*version != kVersion) return foreign("was written by another version of weir");
  return {};
}

Status SqliteDatabase::prepare(uint64_t most_bytes, Whose whose) {
  Connection& c = statements_.connection();
  // One process at a time; freed pages go back to the system step by step; a commit is on disk when it returns.
  const std::string pragmas = "PRAGMA locking_mode = EXCLUSIVE; PRAGMA page_size = " + std::to_string(kPage) +
                              "; PRAGMA auto_vacuum = INCREMENTAL; PRAGMA trusted_schema = OFF;";
  if (auto s = c.execute(pragmas.c_str()); !s.ok()) return s;
  if (auto s = make_or_check(c); !s.ok()) return s;
  if (auto s = c.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA journal_size_limit = 16777216;");
      !s.ok())
    return s;
  if (auto s = allow(statements_.connection(), most_bytes); !s.ok()) return s;
  // The log still has what such a file has lost with the machine's power.
  if (whose == Whose::kAllNodes) return c.execute("PRAGMA synchronous = NORMAL;");
  // Jobs that were claimed wait again, and uploads that were not finished are gone: here nobody has a name.
  if (auto s = as_one(c, [&] { return replica_.free(""); }); !s.ok()) return s;
  return c.execute("PRAGMA incremental_vacuum;");
}

Status SqliteDatabase::together(Status (*run)(void*), void* work) {
  return as_one(statements_.connection(), [&] { return run(work); });
}

}  // namespace

base::Result<std::unique_ptr<Database>> open_database(const std::string& folder, uint64_t most_bytes, Whose whose) {
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return failure(Code::kFailedPrecondition, "jobs.path: " + folder + ": " + std::strerror(errno));
  const std::string path = folder + (whose == Whose::kAllNodes ? "/cluster.db" : "/jobs.db");
  auto connection = Connection::open(path);
  if (!connection) return failure(Code::kFailedPrecondition, path + ": " + connection.error().text);
  auto out = std::make_unique<SqliteDatabase>(std::move(*connection), folder);
  if (auto s = out->prepare(most_bytes, whose); !s.ok())
    return failure(Code::kFailedPrecondition, path + ": " + s.text);
  return std::unique_ptr<Database>(std::move(out));
}

}  // namespace weir::jobs
