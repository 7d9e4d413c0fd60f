#include "engines/llm/cuda/expert_activations.h"

#include <algorithm>
#include <utility>

#include "engines/llm/cuda/device_weights.h"
#include "engines/llm/cuda/plan.h"

namespace weir::llm::cuda {

base::Status ExpertActivations::allocate(device::Device& device, const ExpertShape& experts, size_t hidden,
                                         size_t tokens) {
  const size_t pairs = tokens * experts.used, most_tiles = pairs / 16 + std::min<size_t>(pairs, experts.count) + 1;
  size_t end = 0;
  auto room = [&](size_t n) { return std::exchange(end, end + aligned(n)); };
  const size_t at_scores = room(tokens * scores_of(experts) * sizeof(float));
  const size_t at_chosen = room(pairs * sizeof(uint32_t)), at_shares = room(pairs * sizeof(float));
  const size_t at_order = room(pairs * sizeof(uint32_t)), at_tiles = room(most_tiles * sizeof(ExpertTile));
  const size_t at_gated = room(pairs * experts.width * sizeof(Bf16)), at_answers = room(pairs * hidden * sizeof(float));
  const size_t at_shared = room(experts.shared_width > 0 ? tokens * hidden * sizeof(float) : 0);
  auto buffer = device.buffer(end);
  if (!buffer) return buffer.error();
  memory = std::move(*buffer);
  auto place = [&]<class T>(T*& to, size_t at) { to = reinterpret_cast<T*>(memory.data() + at); };
  place(scores, at_scores), place(chosen, at_chosen), place(shares, at_shares), place(order, at_order);
  place(tiles, at_tiles), place(gated, at_gated), place(answers, at_answers);
  if (experts.shared_width > 0) place(shared, at_shared);
  return {};
}

}  // namespace weir::llm::cuda
