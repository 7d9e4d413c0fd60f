// Any bytes as a model's config.json: it is refused, or what it says is within the bounds that the engine counts on.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "engines/llm/cuda/tensor_split.h"
#include "engines/llm/encoder/bert_shape.h"
#include "engines/llm/encoder/classifier.h"
#include "engines/llm/load/shape.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (auto bert = weir::llm::parse_bert_shape({reinterpret_cast<const char*>(data), size})) {
    bool sound = bert->hidden % bert->heads == 0 && bert->head_dim() <= 1024 && bert->max_length() > 0 &&
                 bert->max_length() <= bert->positions && bert->layers > 0 &&
                 (bert->reaches.empty() || bert->reaches.size() == bert->layers) &&
                 (!bert->turns() || bert->rope.frequencies.size() == bert->head_dim() / 2) &&
                 (!bert->local_rope || bert->local_rope->frequencies.size() == bert->head_dim() / 2);
    if (!sound) std::abort();
  }
  if (auto head = weir::llm::parse_classifier({reinterpret_cast<const char*>(data), size}))
    if (head->labels.empty() || head->labels.size() > weir::llm::kMaxLabels || head->out.empty()) std::abort();
  auto shape = weir::llm::parse_shape({reinterpret_cast<const char*>(data), size});
  if (!shape) return 0;
  const auto& s = *shape;
  bool sound = s.heads % s.kv_heads == 0 && s.heads / s.kv_heads <= 24 && s.head_dim % 2 == 0 && s.head_dim > 0 &&
               s.head_dim <= 1024 && s.windows.size() == s.layers && s.rope.frequencies.size() <= s.head_dim / 2 &&
               (!s.local_rope || s.local_rope->frequencies.size() == s.head_dim / 2) && s.score_scale() > 0 &&
               s.attention_cap >= 0 && s.logits_cap >= 0 && s.hidden >= 2 &&
               (!s.experts || (s.experts->used <= s.experts->count && s.experts->layers.size() == s.layers)) &&
               (s.unturned.empty() || s.unturned.size() == s.layers) && (!s.vision || s.vision->patches() > 0);
  if (!sound) std::abort();
  for (uint32_t ranks = 2; ranks <= weir::llm::cuda::kMostRanks; ++ranks) {
    if (!weir::llm::cuda::check_split(s, ranks).ok()) continue;
    const auto part = weir::llm::cuda::split_shape(s, ranks);
    if (part.kv_heads == 0 || part.heads % part.kv_heads || part.intermediate == 0) std::abort();
  }
  return 0;
}
