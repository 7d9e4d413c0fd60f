#include "jobs/missing_models.h"

#include <algorithm>

#include "base/sip_hash.h"

namespace weir::jobs {

bool MissingModels::may_come(std::string_view model, std::string_view job, base::Time now) {
  const uint64_t key = base::hash64(base::process_key(), model), job_key = base::hash64(base::process_key(), job);
  std::lock_guard lock(mutex_);
  if (missed_.size() >= kMost) std::erase_if(missed_, [now](const auto& m) { return now - m.second.last >= kReturns; });
  if (missed_.size() >= kMost && !missed_.contains(key)) return false;
  Missed& missed = missed_.try_emplace(key, Missed{now, now, {}}).first->second;
  if (now - missed.last >= kReturns) missed.first = now;
  missed.last = now;
  if (missed.jobs.size() >= kMostJobs && !missed.jobs.contains(job_key))
    missed.jobs.erase(std::ranges::min_element(missed.jobs, {}, [](const auto& each) { return each.second; }));
  const auto own = missed.jobs.try_emplace(job_key, now).first;
  const bool comes = now - missed.first < kReturns && now - own->second < kReturns;
  if (!comes) missed.jobs.erase(own);  // the job ends
  return comes;
}

void MissingModels::found(std::string_view model) {
  const uint64_t key = base::hash64(base::process_key(), model);
  std::lock_guard lock(mutex_);
  missed_.erase(key);
}

}  // namespace weir::jobs
