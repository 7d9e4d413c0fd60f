// LogBeginning: whether a copy that has nothing may begin a log where nothing is. NATS may have lost that log: other
// nodes have all of it, and begin it with that (Replica), but a node that has just come may be faster. So it waits for
// them, within bounds. On the Store's thread.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "base/env.h"
#include "jobs/log.h"
#include "jobs/replica_state.h"

namespace weir::jobs {

// UNAVAILABLE, worth another try: the log's beginning is left to others for now.
base::Status log_is_new();

class LogBeginning {
 public:
  // A log that is new begins so long after a copy was told there; and after that, though another one is further. A
  // copy that has nothing waits as long for one that has something, also where no other node is known: where NATS has
  // lost this log it has lost who is there, too.
  static constexpr base::Duration kCompare = std::chrono::seconds(5), kYield = std::chrono::seconds(15);

  // All borrowed.
  LogBeginning(ReplicaState& state, Log& log, std::function<base::Time()> now)
      : state_(state), log_(log), now_(std::move(now)) {}

  // The copy follows the log of that identity: their time begins when it is seen, not when something is first written.
  void note_log(const std::string& identity);
  // Before something is written by the copy, which is that far. Errors: log_is_new(); UNAVAILABLE.
  base::Status check(const ReplicaState::Position& position);

 private:
  base::Result<bool> must_wait(const ReplicaState::Position& position);

  ReplicaState& state_;
  Log& log_;
  const std::function<base::Time()> now_;
  std::string identity_;  // of the log that the copy follows
  base::Time since_;      // when it was seen first: what others have told since has had that time
};

}  // namespace weir::jobs
