// TokenStats: what is counted beside ModelStats where a model makes tokens. Written by the model's lane, read by anyone
// at any time; no locks. Histograms of durations are exposed in seconds, the others in tokens.
//
// A request is one Call (one sequence). Times run from put(): queue to its first step's planning, prefill from there to
// its first generated token, decode from there to the last.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/metrics.h"
#include "msg/generate.h"

namespace weir::bus {

struct TokenStats {
  using Histogram = base::Histogram;
  using Scale = base::Histogram::Scale;

  // How a request ended, in vLLM's words: stop (end of sequence, a stop id), length, abort (cancelled or too late),
  // error.
  enum class Reason : uint8_t { kStop, kLength, kAbort, kError };
  static constexpr size_t kReasons = 4;

  Histogram time_to_first_token{Scale::kSeconds};
  Histogram inter_token{Scale::kSeconds};       // between two generated tokens of a sequence
  Histogram per_output_token{Scale::kSeconds};  // of a request: its decode time by its tokens after the first
  Histogram queue{Scale::kSeconds};
  Histogram prefill{Scale::kSeconds};
  Histogram decode{Scale::kSeconds};
  Histogram inference{Scale::kSeconds};  // prefill and decode
  Histogram whole{Scale::kSeconds};      // until its end
  Histogram prompt_tokens{Scale::kSize};
  Histogram generated_tokens{Scale::kSize};
  Histogram max_tokens{Scale::kSize};        // as asked for
  Histogram iteration_tokens{Scale::kSize};  // in one step, prefill and decode together

  base::Counter prompt_total, generated_total;
  base::Counter preemptions;
  base::Counter moved;                        // forwarded sequences that went on at another origin
  base::Counter prefix_queries, prefix_hits;  // tokens that were looked up and those found
  base::Counter drafted, drafted_right;       // tokens that were guessed and those that were drawn then
  std::array<base::Counter, kReasons> ended;

  base::Gauge running, waiting;  // sequences
  base::Gauge blocks_used, blocks_total, blocks_cached;
  base::Gauge sessions;  // sequences that stay between Calls

  void end(Reason reason) { ended[size_t(reason)].add(); }
  double kv_usage() const;  // 0 … 1
};

TokenStats::Reason reason_of(msg::Finish finish);

}  // namespace weir::bus
