#include "jobs/missing_models.h"

#include "base/sip_hash.h"

namespace weir::jobs {

bool MissingModels::may_come(std::string_view model, base::Time now) {
  const uint64_t key = base::hash64(base::process_key(), model);
  std::lock_guard lock(mutex_);
  if (missed_.size() >= kMost) std::erase_if(missed_, [now](const auto& m) { return now - m.second.last >= kReturns; });
  if (missed_.size() >= kMost && !missed_.contains(key)) return false;
  Missed& missed = missed_.try_emplace(key, Missed{now, now}).first->second;
  if (now - missed.last >= kReturns) missed.first = now;
  missed.last = now;
  return now - missed.first < kReturns;
}

void MissingModels::found(std::string_view model) {
  const uint64_t key = base::hash64(base::process_key(), model);
  std::lock_guard lock(mutex_);
  missed_.erase(key);
}

}  // namespace weir::jobs
