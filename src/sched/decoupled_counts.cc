#include "sched/decoupled_counts.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"

namespace weir::sched {
namespace {

uint64_t since(base::Time then, base::Time now) { return uint64_t(std::max<int64_t>((now - then).count(), 0)); }

}  // namespace

void DecoupledCounts::answer(DecoupledRun& run, const msg::Event& event) {
  const auto* failed = std::get_if<msg::Failed>(&event.what);
  const base::Time now = base::steady_now();
  std::lock_guard lock(run.mutex);
  const base::Time before = std::exchange(run.answered_at, now);
  if (!failed && run.answered == 0) first_.add(since(run.parent->times.queued, now));
  responses_.add(run.answered++, failed ? failed->status.code : base::Code::kOk, since(before, now));
}

void DecoupledCounts::end(DecoupledRun& run, const msg::Event& event) {
  const auto& t = run.parent->times;
  const uint64_t took = since(run.answered_at, t.finished);
  if (auto* failed = std::get_if<msg::Failed>(&event.what)) {
    responses_.add(run.answered, failed->status.code, took);
    return stats_.add_failure(failed->status.code, since(t.queued, t.finished));
  }
  if (std::get<msg::Outputs>(event.what).tensors.empty())
    responses_.at(run.answered).empty.add(took);
  else
    responses_.add(run.answered, base::Code::kOk, took);
  if (run.answered == 0 && !std::get<msg::Outputs>(event.what).tensors.empty()) first_.add(since(t.queued, t.finished));
  stats_.ran({.at_ms = base::unix_ms(),
              .whole_ns = since(t.queued, t.finished),
              .queue_ns = since(t.queued, t.started),
              .infer_ns = since(t.started, t.finished)});
  stats_.record_batch(1, 0, since(t.started, t.finished), 0);
}

}  // namespace weir::sched
