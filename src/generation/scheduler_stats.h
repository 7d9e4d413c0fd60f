// The statistics of a token scheduler: of each sequence and step, and as its part of the model's gauges.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/env.h"
#include "bus/stats.h"
#include "generation/kv_memory.h"
#include "generation/sequence.h"
#include "generation/step_rows.h"

namespace weir::generation {

inline uint64_t whole_ns(base::Duration d) { return uint64_t(std::max<int64_t>(d.count(), 0)); }

// As Triton counts, with a sequence for a request, and all of its steps for its batch. `stats.tokens` is there. Sets
// the Call's times that are not set, since everything was there already.
void count_sequence(bus::ModelStats& stats, const Sequence& s, base::Time now);
// A step is in the timeline, too: `calls` are its sequences that decode, `rows` all its tokens.
void count_step(bus::ModelStats& stats, const StepRows& rows, base::Time planned, base::Time now);

// A model has one set of gauges, and perhaps several lanes: each adds its own part.
class SchedulerGauges {
 public:
  // `stats` outlives this; stats.tokens is there.
  SchedulerGauges(bus::ModelStats& stats, uint32_t blocks);
  void show(size_t waiting, size_t active, const KvMemory& memory);
  // Takes this part back, the blocks among it.
  void withdraw();

 private:
  bus::ModelStats& stats_;
  bus::TokenStats& tokens_;
  int64_t blocks_;
  struct {
    int64_t running = 0, waiting = 0, used = 0, cached = 0, sessions = 0;
  } shown_;
};

}  // namespace weir::generation
