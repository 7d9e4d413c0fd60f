// Weights: a transformer's parameters, packed for this CPU.
#pragma once

#include <cstdint>
#include <vector>

#include "engines/llm/cpu/matrix.h"
#include "engines/llm/load/store.h"

namespace weir::llm {

// One after the other, each expert's panels of its own.
struct ExpertWeights {
  Matrix router;                                    // outputs = 0: the layer is no mixture
  Matrix gate_up, down;                             // of the experts
  Matrix shared_gate, shared_gate_up, shared_down;  // of the one that sees every position, where there is one
};

struct Layer {
  std::vector<float> input_norm, post_norm;     // before attention, before the MLP; empty: there is none
  std::vector<float> attention_norm, mlp_norm;  // of what these add; empty: it is added as it is
  std::vector<float> q_norm, k_norm;            // per head, or of all together; empty when the model has none
  std::vector<float> sinks;                     // per query head; empty: there are none
  Matrix qkv, out, gate_up, down;               // q, k, v one after the other; gates and ups in turns of a panel
  ExpertWeights experts;                        // in place of gate_up and down
};

// Outputs of a matrix of `width` gates and as many ups: they lie side by side, in panels.
constexpr uint32_t gated_outputs(uint32_t width) { return (width + 15) / 16 * 32; }

struct Weights {
  Matrix embedding;  // also the output matrix when there is no `head`
  Matrix head;       // outputs = 0 when the two are one
  std::vector<Layer> layers;
  std::vector<float> norm;
  uint64_t bytes() const;  // of the matrices
  const Matrix& output() const { return head.outputs > 0 ? head : embedding; }
};

// The form that holds what is stored without rounding: FP16 has more bits of mantissa than BF16 and takes F32, twice
// the memory; the parameter dtype: bfloat16 rounds it. Numbers in blocks were rounded further than BF16 rounds.
inline WeightFormat exact_form(Stored stored) {
  return stored == Stored::kBf16 || in_blocks(stored) ? WeightFormat::kBf16 : WeightFormat::kF32;
}

// Codes are of bfloat16 alone: of a checkpoint that is quantized, or a model that is here.
inline WeightFormat usual_form(const Shape& shape, const Store& store, Keep keep) {
  const bool coded = keep == Keep::kInt8 || keep == Keep::kInt4 || shape.quantization.method != QuantMethod::kNone;
  return coded ? WeightFormat::kBf16 : exact_form(store.usual_form());
}

// `keep` is of the layers' matrices; embedding and head stay whole.
base::Result<Weights> load_weights(const Shape& shape, const Store& store, WeightFormat form, ThreadTeam& team,
                                   Keep keep = Keep::kAsStored);

}  // namespace weir::llm
