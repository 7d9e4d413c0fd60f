// Asynchronous inference: `Prefer: respond-async` (RFC 7240 §4.1) on POST …/infer is answered 202 with the Location of
// a job, where there is a journal (src/jobs/); without one the preference is not applied, and the request is answered
// as any other.
//
//   GET    /v2/jobs/{job}          {"id","status":"accepted"|"running"|"succeeded"|"failed","created_at","expires_at"}
//   GET    /v2/jobs/{job}/result   what the request would have been answered, until the job expires; 425 before
//   DELETE /v2/jobs/{job}          it does not run, or is ended, and its result is gone
//
// A job is its owner's alone. It expires jobs.result_ttl after it was left, and again after it was over.
#pragma once

#include "dialects/oip/rest.h"
#include "jobs/store.h"

namespace weir::oip {

// Whether the request is to be left as a job. Answers it, if so.
bool left_as_job(OipState& state, wire::Exchange& exchange);

void show_job(OipState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void job_result(OipState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void delete_job(OipState& state, wire::Exchange& exchange, const wire::PathArgs& args);

// Jobs that are over, and those whose time is.
class AsyncDuty final : public jobs::Duty {
 public:
  explicit AsyncDuty(const jobs::Limits& limits) : limits_(limits) {}
  base::Result<bool> step(jobs::Storage& storage, base::WallTime now) override;

 private:
  const jobs::Limits& limits_;
};

}  // namespace weir::oip
