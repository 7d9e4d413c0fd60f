#include "jobs/log_beginning.h"

namespace weir::jobs {

using base::Code;
using base::Result;
using base::Status;

Status log_is_new() {
  return base::try_again(Code::kUnavailable,
                         "the jobs' log in NATS is new, and will begin with the copy that has most of the last one");
}

void LogBeginning::note_log(const std::string& identity) {
  if (identity_ != identity) identity_ = identity, since_ = now_();
}

Status LogBeginning::check(const ReplicaState::Position& position) {
  auto waits = must_wait(position);
  if (!waits) return waits.error();
  return *waits ? log_is_new() : Status();
}

Result<bool> LogBeginning::must_wait(const ReplicaState::Position& position) {
  if (position.sequence > 0) return false;
  auto newest = state_.newest_entry();
  if (!newest) return newest.error();
  if (!newest->id.empty()) return false;
  auto first = log_.next(0);
  if (!first) return first.error();
  auto begun = log_.snapshot();
  if (!begun) return begun.error();
  if (*first || *begun) return false;
  const base::Duration since = now_() - since_;
  if (since < kCompare) return true;
  if (since >= kCompare + kYield) return false;
  return log_.is_behind({});
}

}  // namespace weir::jobs
