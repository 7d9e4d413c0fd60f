#include "generation/scheduler_stats.h"

#include <algorithm>
#include <utility>

namespace weir::generation {

using base::kNever;
using base::Time;

void count_sequence(bus::ModelStats& stats, const Sequence& s, Time now) {
  auto& times = s.call->times;
  for (auto* time : {&times.computing, &times.computed})
    if (*time == kNever) *time = now;  // everything was there already
  auto queued = whole_ns(times.started - times.queued);
  stats.success.add(whole_ns(now - times.queued));
  stats.queue.add(queued);
  stats.compute_input.add(whole_ns(times.computing - times.started));
  stats.compute_infer.add(whole_ns(times.computed - times.computing));
  stats.compute_output.add(whole_ns(now - times.computed));
  stats.inference_count.add();

  auto& tokens = *stats.tokens;
  auto first = s.first_token == kNever ? now : s.first_token, last = s.last_token == kNever ? now : s.last_token;
  tokens.queue.record_ns(queued);
  tokens.prefill.record_ns(whole_ns(first - times.started));
  tokens.decode.record_ns(whole_ns(last - first));
  tokens.inference.record_ns(whole_ns(now - times.started));
  tokens.whole.record_ns(whole_ns(now - times.queued));
  if (s.generated > 1) tokens.per_output_token.record_ns(whole_ns(last - first) / (s.generated - 1));
  tokens.prompt_tokens.record_size(s.prompt);
  tokens.generated_tokens.record_size(s.generated);
  tokens.max_tokens.record_size(s.params.max_tokens);
  tokens.prompt_total.add(s.prompt);
}

void count_step(bus::ModelStats& stats, const StepRows& rows, Time planned, Time now) {
  stats.execution_count.add();
  stats.record_batch(uint32_t(rows.runs.size()), 0, whole_ns(now - planned), 0);
  stats.tokens->iteration_tokens.record_size(rows.step.ids.size());
  // A run that was laid out ahead for a sequence that has left since has none.
  const auto decoding = std::count_if(rows.runs.begin(), rows.runs.end(), [](const TokenRun& run) {
    return run.sequence && run.from >= run.sequence->prompt;
  });
  stats.timeline.add({0, 0, uint32_t(decoding), uint32_t(rows.step.ids.size()), planned, planned, planned, planned,
                      planned, planned, now, now, now});
}

SchedulerGauges::SchedulerGauges(bus::ModelStats& stats, uint32_t blocks)
    : stats_(stats), tokens_(*stats.tokens), blocks_(blocks) {
  tokens_.blocks_total.add(blocks_);
}

void SchedulerGauges::show(size_t waiting, size_t active, const KvMemory& memory) {
  const auto& blocks = memory.blocks();
  auto set = [](base::Gauge& gauge, int64_t& was, int64_t now) { gauge.add(now - std::exchange(was, now)); };
  stats_.pending.fetch_add(int64_t(waiting) - shown_.waiting, std::memory_order_relaxed);
  set(tokens_.waiting, shown_.waiting, int64_t(waiting));
  set(tokens_.running, shown_.running, int64_t(active));
  set(tokens_.blocks_used, shown_.used, blocks.used());
  set(tokens_.blocks_cached, shown_.cached, blocks.cached());
  set(tokens_.sessions, shown_.sessions, int64_t(memory.residents()));
}

void SchedulerGauges::withdraw() {
  stats_.pending.fetch_add(-shown_.waiting, std::memory_order_relaxed);
  tokens_.waiting.add(-shown_.waiting);
  tokens_.running.add(-shown_.running);
  tokens_.blocks_used.add(-shown_.used);
  tokens_.blocks_cached.add(-shown_.cached);
  tokens_.sessions.add(-shown_.sessions);
  tokens_.blocks_total.add(-std::exchange(blocks_, 0));
  shown_ = {};
}

}  // namespace weir::generation
