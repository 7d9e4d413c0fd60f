// Snapshots: keeps the log short. When it has become long, what its entries have come to is laid into it as a file, in
// parts, and the entries are dropped. A copy that is behind what is left of the log takes that file.
//
// On the Store's thread. A copy of the file is made in one go; its parts are appended some at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

#include "base/status.h"
#include "jobs/log.h"
#include "jobs/replica_state.h"

namespace weir::jobs {

class Snapshots {
 public:
  static constexpr uint64_t kShort = uint64_t(32) << 20;  // bytes of a log that stays as it is
  static constexpr uint64_t kApart = 256;                 // sequences from one to the next, at least
  static constexpr uint64_t kParts = 8;                   // that are appended in a slice

  // Borrowed.
  Snapshots(ReplicaState& state, Log& log) : state_(state), log_(log) { state_.copies().stop_by(stopping_); }

  // Any thread. For good: what goes on is left at its next part, or in the middle of a copy.
  void stop() { stopping_ = true; }

  // Where the copy is afterwards: the same, if no snapshot is newer. DATA_LOSS: the snapshot is no good.
  // FAILED_PRECONDITION: as of log_is_another(). UNAVAILABLE.
  base::Result<ReplicaState::Position> take(const ReplicaState::Position& now);
  // Lays the copy into a log in which nothing is, whose beginning it is then. ABORTED: something is.
  // RESOURCE_EXHAUSTED: it has no room. UNAVAILABLE.
  base::Status begin_log(const std::string& identity);
  // A slice of what there is to do. True: there is more. RESOURCE_EXHAUSTED: the log has no room for a snapshot, and
  // nothing of one is appended.
  base::Result<bool> shorten(const ReplicaState::Position& now);
  // One that was begun is left to another node, and nothing of it stays here.
  void give_up();

 private:
  struct Making {
    Log::Snapshot snapshot;
    std::ifstream file;
  };
  base::Result<bool> is_long(const ReplicaState::Position& now);
  base::Status open(uint64_t sequence);
  base::Result<bool> append_parts();
  base::Status fetch(const Log::Snapshot& snapshot);

  ReplicaState& state_;
  Log& log_;
  std::optional<Making> making_;
  std::atomic<bool> stopping_{false};
};

}  // namespace weir::jobs
