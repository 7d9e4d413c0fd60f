// Recorder: a Storage that does its work in a ReplicaState's open transaction and notes what it has written as
// Commands, so that the transaction can be rolled back and the commands be done on all nodes. On the Store's thread.
#pragma once

#include "jobs/commands.h"
#include "jobs/journal.h"
#include "jobs/replica_state.h"

namespace weir::jobs {

class Recorder final : public Storage {
 public:
  struct Bounds {
    uint64_t file = UINT64_MAX;  // bytes of records in the file
    size_t commands = 64 << 20;  // of what one piece of work may note
  };
  // A write that would add to the file past its bounds is refused with RESOURCE_EXHAUSTED before anything is done, so
  // that the work can go on and say so. Results without a body, changes and removals always find room.
  Recorder(ReplicaState& state, Bounds bounds);

  Commands& commands() { return commands_; }
  void set_most(size_t commands) { bounds_.commands = commands; }

 private:
  struct RecordedJournal final : Journal {
    explicit RecordedJournal(Recorder& r) : to(r) {}
    base::Status put(std::span<const Job> jobs) override;
    base::Status put_claimed(std::span<const Job> jobs) override;
    base::Result<bool> holds(const JobId& id) override;
    base::Result<std::vector<Job>> claim(size_t most, base::WallTime now) override;
    base::Result<bool> finish(const JobId& id, const Outcome& outcome) override;
    base::Status release(const JobId& id, base::WallTime when) override;
    base::Result<std::vector<FinishedJob>> list(const std::string& batch, uint64_t from, uint64_t bytes) override;
    base::Result<Counts> count(const std::string& batch) override;
    base::Status withdraw(const std::string& batch) override;
    base::Status remove(const std::string& batch) override;
    Recorder& to;
  };
  struct RecordedBatches final : Batches {
    explicit RecordedBatches(Recorder& r) : to(r) {}
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
    Recorder& to;
  };
  struct RecordedFiles final : Files {
    explicit RecordedFiles(Recorder& r) : to(r) {}
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
    Recorder& to;
  };
  // A write after the transaction has ended would be there for good, and on this copy alone.
  base::Status writable() const;
  base::Status fits(uint64_t bytes);  // that are added
  // An error undoes what was written and noted since.
  base::Status together(base::Status (*run)(void* work), void* work) override;

  ReplicaState& state_;
  Bounds bounds_;
  Storage& inner_;
  Commands commands_;
  RecordedJournal journal_;
  RecordedBatches batches_;
  RecordedFiles files_;
};

}  // namespace weir::jobs
