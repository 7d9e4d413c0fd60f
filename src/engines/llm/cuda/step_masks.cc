#include "engines/llm/cuda/step_masks.h"

#include "base/attempt.h"
#include "engines/llm/cuda/launches.h"

namespace weir::llm::cuda {

using base::Status;

Status StepMasks::fit(KernelQueue& queue, device::PinnedBlock& staging, size_t count) {
  const size_t bytes = count * words_ * sizeof(uint32_t);
  return each([&] { return queue.fit(memory_, bytes); }, [&] { return queue.fit(staging, bytes); });
}

Status StepMasks::upload(KernelQueue& queue, const SamplingPlan& plan, device::PinnedBlock& staging) {
  if (plan.masked.empty()) return {};
  auto* to = reinterpret_cast<uint32_t*>(staging.data());
  if (auto s = base::attempt("masks of a step", [&] { plan.write_masks(to); }); !s.ok()) {
    (void)queue.drain();  // what is queued reads memory of this step, which the next one takes
    return s;
  }
  const size_t bytes = plan.masked.size() * words_ * sizeof(uint32_t);
  return queue.copy(device::Way::kToDevice, device::Copy{memory_.data(), staging.data(), bytes});
}

}  // namespace weir::llm::cuda
