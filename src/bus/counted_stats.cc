#include "bus/counted_stats.h"

#include <algorithm>
#include <variant>

namespace weir::bus {
namespace {

// 0 where one of them has not happened.
uint64_t between(base::Time from, base::Time to) {
  if (from == base::kNever || to == base::kNever) return 0;
  return uint64_t(std::max<int64_t>((to - from).count(), 0));
}

}  // namespace

void count_adapter_call(Served& served, const msg::Call& call, const msg::Event& end, uint64_t at_ms) {
  const msg::Timeline& times = call.times;
  const base::Time finished = times.finished != base::kNever ? times.finished : times.computed;
  const uint64_t whole = between(times.queued, finished);
  if (auto* failed = std::get_if<msg::Failed>(&end.what)) return served.stats.add_failure(failed->status.code, whole);
  ModelStats::Ran ran{at_ms};
  ran.rows = call.rows, ran.whole_ns = whole;
  ran.queue_ns = std::min(between(times.queued, times.started), whole);
  ran.infer_ns = whole - ran.queue_ns;
  served.stats.ran(ran);
}

}  // namespace weir::bus
