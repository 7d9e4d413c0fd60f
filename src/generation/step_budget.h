// StepBudget: how many tokens of prompts the next step may have, so that it takes about as long as it should. Pure:
// durations are arguments.
//
// How long a step takes depends on the model, on the machine and what else runs there, and on how far back a prompt
// looks. So it is measured: tokens per second of the last steps with prompts, the median of three, for each range of
// contexts (up to 255 positions, 511, 1023, …). At that speed the wanted time has room for so many tokens, and a chunk
// is at most twice as large as the last ones. A larger step is no slower per token, so this settles at the wanted time.
//
// Where sequences wait for their next token, the wanted time is twice a step of these sequences alone, so that hardly a
// step makes them more than three times slower, and a prompt gets on beside a slow model, too; but at least a quarter
// of the target, since nobody sees shorter gaps, and small chunks are slow. Such a step is run without prompts every
// 512 steps, to be measured. Where a step has prompts alone, the wanted time is 5 times the target: only who comes or
// leaves meanwhile waits for its end.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/env.h"

namespace weir::generation {

// The load of a step: sequences that were fed their newest token, other tokens, and the longest context of these.
struct StepLoad {
  uint32_t decodes = 0, prefill = 0, context = 0;
  uint32_t allowed = 0;     // tokens of prompts that it could have
  base::Duration wanted{};  // how long it may take
};

class StepBudget {
 public:
  // `target` 0: no step takes too long. `most`: tokens of a step.
  StepBudget(base::Duration target, uint32_t most) : target_(target), most_(most) {}

  // Tokens of prompts that a step may have beside its decodes, which are fewer than `most`; its context is the longest
  // of these prompts, as far as it is stored. 0: a step of decodes alone is to be measured. Notes in `load` what
  // record() wants to know.
  uint32_t prefill_tokens(StepLoad& load);
  // A step that prefill_tokens() was asked for, or one without prompts, has run in this time.
  void record(const StepLoad& load, base::Duration took);

 private:
  struct Sample {
    uint32_t tokens = 0, prefill = 0;
    base::Duration took{};
  };
  // The last three.
  struct Samples {
    std::array<Sample, 3> kept{};
    uint32_t count = 0;
    void add(Sample sample) { kept[count++ % kept.size()] = sample; }
    // The sample of the median speed; the slower one of two. `count` is at least 1.
    Sample median() const;
    uint32_t largest_prefill() const;
  };
  struct Decodes {
    Samples samples;
    uint32_t steps_since = 0;  // with prompts
  };
  static constexpr size_t kRanges = 16;
  static size_t range_of(uint32_t context);
  Decodes& like(uint32_t decodes);
  base::Duration wanted(uint32_t decodes);
  const Samples* nearest(size_t range) const;

  const base::Duration target_;
  const uint32_t most_;
  std::array<Samples, kRanges> with_prompts_;
  std::array<Decodes, kRanges> decodes_alone_;
};

}  // namespace weir::generation
