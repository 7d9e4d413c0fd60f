#include "engines/forward/token_counts.h"

#include <algorithm>

namespace weir::forward {
namespace {

uint64_t spent_ns(base::Duration d) { return uint64_t(std::max<int64_t>(d.count(), 0)); }

bus::TokenStats::Reason reason(const msg::Call& call, const base::Status& status, const msg::Event& last) {
  using Reason = bus::TokenStats::Reason;
  if (status.ok())
    return std::holds_alternative<msg::Done>(last.what) ? bus::reason_of(std::get<msg::Done>(last.what).finish)
                                                        : Reason::kStop;
  if (status.code == base::Code::kCancelled)
    return call.satisfied.load(std::memory_order_relaxed) ? Reason::kStop : Reason::kAbort;
  return status.code == base::Code::kDeadlineExceeded ? Reason::kAbort : Reason::kError;
}

}  // namespace

void count_sequence(bus::ModelStats& stats, const msg::Call& call, size_t generated, const base::Status& status,
                    const msg::Event& last) {
  auto& tokens = *stats.tokens;
  tokens.running.add(-1);
  tokens.end(reason(call, status, last));
  if (!status.ok()) return;
  const auto& times = call.times;
  const base::Time first = times.first_token == base::kNever ? times.finished : times.first_token;
  tokens.queue.record_ns(spent_ns(times.started - times.queued));
  tokens.prefill.record_ns(spent_ns(first - times.started));
  tokens.decode.record_ns(spent_ns(times.finished - first));
  tokens.inference.record_ns(spent_ns(times.finished - times.started));
  tokens.whole.record_ns(spent_ns(times.finished - times.queued));
  if (generated > 1) tokens.per_output_token.record_ns(spent_ns(times.finished - first) / (generated - 1));
  tokens.prompt_tokens.record_size(call.generation->length());
  tokens.generated_tokens.record_size(generated);
  tokens.max_tokens.record_size(call.generation->max_tokens);
  tokens.prompt_total.add(call.generation->length());
}

}  // namespace weir::forward
