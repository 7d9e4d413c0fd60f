// Commands: what a piece of work has written, as bytes that do the same to every copy of the journal.
//
//   entry    = "weirjob1" text(origin) text(id) u64(after) u32(records) *record
//   record   = u8(1: the origin must look after the duties) text(*command)
//   command  = u8(kind) fields                                as of the functions of Commands
//   text     = u32(bytes) *OCTET          u32, u64: little-endian; times: milliseconds since 1970
//
// Nothing in them is left to the one who applies them: no clock, no random bytes, no order that a table happens to
// have. A length that is wrong is an error, and no more than what is there is ever read.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "jobs/journal.h"
#include "jobs/replica_state.h"

namespace weir::jobs {

// Written in their order. Pure.
class Commands {
 public:
  void put(std::span<const Job> jobs);
  void put_claimed(std::span<const Job> jobs);
  void claim(size_t most, base::WallTime now);
  void finish(const JobId& id, const Outcome& outcome);
  void release(const JobId& id, base::WallTime when);
  void withdraw(std::string_view batch);
  void remove_jobs(std::string_view batch);
  void add(const Batch& batch);
  void change(const Batch& batch, uint64_t version);  // that it has before
  void remove_batch(std::string_view id);
  void append(std::string_view file, uint64_t part, std::string_view bytes, std::string_view owner);
  void add(const File& file);
  void remove_file(std::string_view id);
  void free(std::string_view holder);
  void take_duties(std::string_view before);  // the one who has them now
  void end(std::string_view batch);           // those of its jobs that run, wherever

  const std::string& bytes() const { return bytes_; }
  bool empty() const { return bytes_.empty(); }
  void cut(size_t bytes) { bytes_.resize(bytes); }  // what came since there were so many

 private:
  std::string bytes_;
};

struct Record {
  enum class As : uint8_t { kNode, kDuty } as = As::kNode;
  std::string commands;
};
struct EntryContent {
  std::string origin;  // "name/token"
  std::string id;      // random
  uint64_t after = 0;  // the last entry that the origin had applied
  std::vector<Record> records;
};
inline constexpr size_t kMostRecords = 256, kLongestOrigin = 160, kLongestId = 64;

std::string write_entry(const EntryContent& entry);
// Errors: INVALID_ARGUMENT.
base::Result<EntryContent> read_entry(std::string_view bytes);

// All that commands have brought about outside of the file.
struct Effects {
  std::vector<Job> claimed;
  std::vector<std::string> ended;  // batches whose jobs run no more
};
// Runs them for `origin`. ABORTED: something is not as it was where they were written. INVALID_ARGUMENT: they are
// malformed. Both leave a part of them done. Other errors are the file's. `bodies`: of jobs that are claimed.
base::Status run_commands(std::string_view commands, std::string_view origin, ReplicaState::Bodies bodies,
                          ReplicaState& state, Effects& effects);

}  // namespace weir::jobs
