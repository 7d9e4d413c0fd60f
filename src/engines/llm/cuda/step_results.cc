#include "engines/llm/cuda/step_results.h"

#include <utility>

#include "engines/llm/cuda/plan.h"

namespace weir::llm::cuda {

using Step = generation::TokenStep;

ResultLayout lay_out_results(const Step& step, const SamplingPlan& sampling, const Shape& shape,
                             const Readouts& readouts) {
  ResultLayout a;
  auto room = [&](size_t count) { return std::exchange(a.bytes, a.bytes + aligned(count * sizeof(float))); };
  a.logprobs = room(sampling.logprobs.size());
  a.best_ids = room(sampling.logprobs.size() * sampling.most);
  a.best = room(sampling.logprobs.size() * sampling.most);
  a.readouts = room(step.readouts.size() * readouts.layers.size() * readouts.concepts.size());
  a.pools = room(step.pools.size() * shape.hidden * (sizeof(double) / sizeof(float)));
  a.ids = aligned(sampling.ids.size() * sizeof(uint32_t));
  return a;
}

void read_results(const StepInFlight& from, const Shape& shape, const Readouts& readouts, Step& step) {
  const auto* ids = reinterpret_cast<const uint32_t*>(from.out.data());
  const std::byte* out = from.out.data() + from.results.ids;
  auto floats = [&](size_t at) { return reinterpret_cast<const float*>(out + at); };
  for (size_t i = 0; i < step.logits_requests.size(); ++i)
    if (step.logits_requests[i].kind == Step::LogitsRequest::Kind::kSample) step.logits_requests[i].id = ids[i];
  const auto* best_ids = reinterpret_cast<const uint32_t*>(out + from.results.best_ids);
  const size_t most = from.sampling.most;
  for (size_t i = 0; i < from.sampling.logprobs.size(); ++i) {
    const auto& row = from.sampling.logprobs[i];
    auto& request = step.logits_requests[row.id];
    request.logprob = floats(from.results.logprobs)[i];
    request.best.clear();
    for (size_t k = i * most; k < i * most + row.top; ++k)
      if (best_ids[k] != kNoToken) request.best.push_back({best_ids[k], floats(from.results.best)[k]});
  }
  const size_t values = readouts.layers.size() * readouts.concepts.size();
  for (size_t i = 0; i < step.readouts.size(); ++i) {
    const float* at = floats(from.results.readouts) + i * values;
    step.readouts[i].values.assign(at, at + values);
  }
  for (size_t i = 0; i < step.pools.size(); ++i) {
    const double* at = reinterpret_cast<const double*>(out + from.results.pools) + i * shape.hidden;
    step.pools[i].sum.assign(at, at + shape.hidden);  // with what earlier rows had left
  }
}

}  // namespace weir::llm::cuda
