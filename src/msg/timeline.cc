#include "msg/timeline.h"

#include <utility>

namespace weir::msg {

void PipelineSteps::add(StepTimes step, PipelineSteps&& parts) {
  left_out += parts.left_out;
  if (all.size() >= kMost) {
    left_out += 1 + uint32_t(parts.all.size());
    return;
  }
  const auto at = uint32_t(all.size());
  step.is_pipeline = !parts.all.empty();
  all.push_back(std::move(step));
  for (StepTimes& part : parts.all) {
    if (all.size() >= kMost) {
      ++left_out;
      continue;
    }
    part.parent = part.parent == StepTimes::kNone ? at : at + 1 + part.parent;
    all.push_back(std::move(part));
  }
}

}  // namespace weir::msg
