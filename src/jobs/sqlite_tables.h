// The three parts of a Storage over the tables of sqlite_database.cc, and what a Replica has beside them. All borrow
// one Statements. `holder`: of jobs that are claimed and of uploads; empty where one process has the file to itself.
#pragma once

#include "jobs/journal.h"
#include "jobs/replica_state.h"
#include "jobs/sqlite.h"

namespace weir::jobs {

// All of `work`, Status(), or nothing of it; a part of the transaction that is open, if one is.
template <class Work>
base::Status as_one(Connection& connection, Work&& work) {
  if (connection.in_transaction()) return work();
  if (auto s = connection.execute("BEGIN IMMEDIATE"); !s.ok()) return s;
  base::Status status = work();
  if (status.ok()) status = connection.execute("COMMIT");
  if (!status.ok() && connection.in_transaction()) (void)connection.execute("ROLLBACK");
  return status;
}

// Counts what an owner has more of, or less: rows of files, uploads and batches; files; bytes.
struct UseChange {
  int64_t records = 0, files = 0, bytes = 0;
};
base::Status change_use(Statements& sql, std::string_view owner, const UseChange& change);

class SqliteJournal final : public Journal {
 public:
  SqliteJournal(Statements& statements, const std::string& holder) : sql_(statements), holder_(holder) {}

  base::Status put(std::span<const Job> jobs) override;
  base::Status put_claimed(std::span<const Job> jobs) override;
  base::Result<bool> holds(const JobId& id) override;
  base::Result<std::vector<Job>> claim(size_t most, base::WallTime now) override {
    return claim(most, now, ReplicaState::Bodies::kRead);
  }
  base::Result<std::vector<Job>> claim(size_t most, base::WallTime now, ReplicaState::Bodies bodies);
  base::Result<bool> finish(const JobId& id, const Outcome& outcome) override;
  base::Status release(const JobId& id, base::WallTime when) override;
  base::Result<std::vector<FinishedJob>> list(const std::string& batch, uint64_t from, uint64_t bytes) override;
  base::Result<Counts> count(const std::string& batch) override;
  base::Status withdraw(const std::string& batch) override;
  base::Status remove(const std::string& batch) override;

 private:
  base::Status insert(std::span<const Job> jobs, int64_t state);
  base::Result<std::optional<Job>> claim_one(base::WallTime now, ReplicaState::Bodies bodies);
  // Or shrink: what counts for its owner, and its jobs that wait.
  base::Status grow(std::string_view batch, int64_t bytes, int64_t waiting);

  Statements& sql_;
  const std::string& holder_;
};

class SqliteBatches final : public Batches {
 public:
  explicit SqliteBatches(Statements& statements) : sql_(statements) {}

  base::Status add(const Batch& batch) override;
  base::Result<bool> change(const Batch& batch) override;
  base::Result<std::optional<Batch>> find(std::string_view owner, std::string_view id) override;
  base::Result<std::vector<Batch>> list(std::string_view owner, std::string_view kind, ListOrder order,
                                        std::string_view after, size_t most) override;
  base::Result<std::vector<Batch>> in_states(std::string_view kind, std::span<const std::string_view> states,
                                             size_t most) override;
  base::Result<std::vector<Batch>> idle(std::string_view kind, std::span<const std::string_view> states,
                                        size_t most) override;
  base::Result<std::vector<Batch>> due(std::string_view kind, std::span<const std::string_view> states,
                                       base::WallTime now, size_t most) override;
  base::Result<uint64_t> count(std::string_view owner, std::span<const std::string_view> states) override;
  base::Status remove(std::string_view id) override;

 private:
  Statements& sql_;
};

class SqliteFiles final : public Files {
 public:
  SqliteFiles(Statements& statements, const std::string& holder) : sql_(statements), holder_(holder) {}

  base::Status append(std::string_view id, uint64_t part, std::string_view bytes, std::string_view owner) override;
  base::Result<uint64_t> appended(std::string_view id) override;
  base::Status add(const File& file) override;
  base::Result<std::optional<File>> find(std::string_view owner, std::string_view id) override;
  base::Result<std::vector<File>> list(std::string_view owner, std::string_view purpose, ListOrder order,
                                       std::string_view after, size_t most) override;
  base::Result<std::string> read(std::string_view id, uint64_t part) override;
  base::Status remove(std::string_view id) override;
  base::Result<std::vector<std::string>> expired(base::WallTime now, size_t most) override;
  base::Result<Use> use(std::string_view owner) override;

 private:
  base::Status end_upload(std::string_view id);

  Statements& sql_;
  const std::string& holder_;
};

// ReplicaState, but for the transactions, which are the database's.
class SqliteReplica {
 public:
  explicit SqliteReplica(Statements& statements) : sql_(statements) {}

  base::Result<ReplicaState::Position> position();
  base::Status set_position(const ReplicaState::Position& position);
  base::Result<bool> take_id(std::string_view id, uint64_t sequence, uint64_t forget);
  base::Result<ReplicaState::TakenId> newest_entry();
  base::Result<bool> has_file(std::string_view id);
  base::Result<uint64_t> version(std::string_view batch);
  base::Result<std::vector<std::string>> holders();
  base::Status free(std::string_view holder);
  base::Result<std::string> duty_holder();
  base::Status set_duty_holder(std::string_view holder);
  base::Status save(const std::string& path);
  base::Status save_beginning(const std::string& path, const ReplicaState::Position& position);
  base::Status load(const std::string& path, const ReplicaState::Position& position, int64_t application,
                    int64_t version);
  void stop_by(const std::atomic<bool>& stopping) { stopping_ = &stopping; }

 private:
  base::Status check_attached(const ReplicaState::Position& position, int64_t application, int64_t version);
  base::Status check_entries();
  base::Status copy_attached();

  Statements& sql_;
  const std::atomic<bool>* stopping_ = nullptr;
};

}  // namespace weir::jobs
