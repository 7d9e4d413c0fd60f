// Shape: what config.json says of a transformer. All families (families.h) are one architecture with switches.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engines/llm/load/quantization.h"

namespace weir::llm {

// Rotary positions: dimension i of the first half turns by position * frequencies[i] against dimension i of the second.
struct Rope {
  std::vector<float> frequencies;  // head_dim / 2; fewer where the dimensions behind them do not turn
  float scale = 1;                 // of both sine and cosine (YaRN's attention factor)
};

// A layer's norms, beside those of queries and keys.
enum class Norms : uint8_t {
  kInputs,   // of attention and of the MLP (Llama)
  kBoth,     // their inputs and their outputs (Gemma 2 and 3)
  kOutputs,  // their outputs alone (OLMo 2 and 3)
};
enum class Activation : uint8_t { kSilu, kGeluTanh, kGelu, kClampedSwiglu };  // of the MLP's gates

struct VisionShape {
  uint32_t image_size = 0, patch_size = 0, hidden = 0, depth = 0, heads = 0, intermediate = 0;
  uint32_t start_id = 0, pad_id = 0, end_id = 0;
  uint32_t patches() const { return (image_size / patch_size) * (image_size / patch_size); }
};

// The feed-forward parts of layers that are mixtures: a router gives each position to `used` of `count` experts, whose
// answers are added up, each times its share of a softmax over all of them.
struct ExpertShape {
  uint32_t count = 0, used = 0, width = 0;
  uint32_t shared_width = 0;  // of the expert that sees every position, times a gate of its own; 0: there is none
  bool normalised = false;    // the shares of those that are used make 1
  bool biased = false;        // the router and the experts
  std::vector<bool> layers;   // which layers are mixtures
};

struct Shape {
  std::string architecture;  // "LlamaForCausalLM"
  uint32_t vocabulary = 0, hidden = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0, intermediate = 0;
  uint32_t max_length = 0;  // max_position_embeddings, times what the rotary scaling makes of it
  float epsilon = 1e-5f;
  bool tied = false;           // the output matrix is the embedding
  bool qk_norm = false;        // every query and key head is normalised by itself (Qwen3)
  bool qk_norm_whole = false;  // not each head by itself, but all of them together (OLMo 2 and 3)
  bool qkv_bias = false;       // Qwen2 always; others by attention_bias
  bool out_bias = false;
  bool mlp_bias = false;
  bool sinks = false;             // every head has a score that no position is seen for
  bool encoder = false;           // makes embeddings: no output matrix, keys and values of one layer at a time
  bool causal = true;             // a position sees those up to its own; of encoders perhaps all
  std::vector<uint32_t> windows;  // per layer: how many positions it sees; 0 = all
  std::vector<uint32_t> eos_ids;
  Rope rope;
  std::optional<Rope> local_rope;  // of the layers with a window, where theirs is another
  std::vector<uint8_t> unturned;   // 1 for each layer whose heads do not turn (NoPE); empty: all do
  Norms norms = Norms::kInputs;
  Activation activation = Activation::kSilu;
  bool fused = false;              // q, k and v are one array, gates and ups another (Phi-3)
  bool norms_less_one = false;     // the norms' weights are stored less 1
  float embedding_scale = 1;       // embeddings are multiplied by it
  bool embedding_rounded = false;  // the scale has the precision of the activations
  float residual_scale = 1;        // what attention and the MLP add is multiplied by it
  float logits_divisor = 1;
  float attention_scale = 0;  // of scores; 0: 1 / sqrt(head_dim)
  float attention_cap = 0;    // scores become cap * tanh(score / cap); 0: they stay
  float logits_cap = 0;       // the same of logits
  std::optional<VisionShape> vision;
  std::optional<ExpertShape> experts;
  Quantization quantization;

  bool is_mixture(uint32_t layer) const { return experts && experts->layers[layer]; }
  float score_scale() const { return attention_scale > 0 ? attention_scale : 1 / std::sqrt(float(head_dim)); }
  const Rope& rope_of(uint32_t layer) const {
    static const Rope kNone;
    if (!unturned.empty() && unturned[layer]) return kNone;
    return local_rope && windows[layer] > 0 ? *local_rope : rope;
  }

  // Ids that stand for what an encoder makes. The model writes none of them, whatever its logits are. Borrows.
  std::span<const uint32_t> placeholders() const {
    return vision ? std::span<const uint32_t>(&vision->pad_id, 1) : std::span<const uint32_t>();
  }
};

// Errors: INVALID_ARGUMENT (a field that is missing or out of range, named), UNIMPLEMENTED (what would change answers
// and is not known here: architecture, activation, kind of rotary scaling, kind of quantization).
// `context`: how long the model's texts are, if less than they may be; 0: as long as they may be.
base::Result<Shape> parse_shape(std::string_view config_json, uint32_t context = 0);

}  // namespace weir::llm
