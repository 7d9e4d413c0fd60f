// Times of a Call: when its parts began and ended, and those of a pipeline's steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/status.h"

namespace weir::msg {

// When things happened to a Call; kNever where they have not. Taken from Env on shards, steady_clock in lanes.
struct Timeline {
  base::Time received = base::kNever;     // the request was complete
  base::Time queued = base::kNever;       // handed to the Inbox
  base::Time started = base::kNever;      // its batch was closed; staging begins
  base::Time computing = base::kNever;    // inputs are in place, the engine runs
  base::Time first_token = base::kNever;  // of a sequence: the engine has its first generated token
  base::Time computed = base::kNever;     // the engine is done; outputs are split
  base::Time finished = base::kNever;     // the last Event was posted
  uint32_t batch_rows = 0;                // size of the batch it shared
};

// One step of a pipeline that is over.
struct StepTimes {
  static constexpr uint32_t kNone = UINT32_MAX;

  std::string name;            // the pipeline's own for it
  std::string model, version;  // the model that ran
  Timeline times;              // `queued` and `finished` are there
  base::Code code = base::Code::kOk;
  uint32_t parent = kNone;   // the step, a pipeline too, that it is a part of: its place among all
  bool is_pipeline = false;  // it has parts, which stand behind it
};

// The steps of one Call of a pipeline, in the order in which they ended. The pipeline writes it, on any thread, until
// the Call's last Event.
struct PipelineSteps {
  static constexpr size_t kMost = 256;  // steps, those of pipelines inside of it as well

  // `parts`: what the step, a pipeline too, has written of itself. What is beyond kMost is left out.
  void add(StepTimes step, PipelineSteps&& parts);

  std::vector<StepTimes> all;
  uint32_t left_out = 0;
};

}  // namespace weir::msg
