// Bert: the forward pass of BERT's family on the CPU, as an Encoder.
//
// Every text's rows go through the same additions in the same order whatever else is in the pack (README.md).
#pragma once

#include <memory>
#include <vector>

#include "engines/llm/cpu/matrix.h"
#include "engines/llm/cpu/rotary.h"
#include "engines/llm/encoder/bert_shape.h"
#include "engines/llm/encoder/encoder.h"
#include "engines/llm/load/store.h"

namespace weir::llm {

struct LayerNorm {
  std::vector<float> weight, bias;
};
struct BertLayer {
  Matrix qkv, out, up, down;       // queries, keys, values one after the other; of a gated MLP gates and ups in turn
  LayerNorm attention_norm, norm;  // of the sums, or of what attention and the MLP read; empty: it is read as it is
};
struct BertWeights {
  Memory words;                         // [vocabulary][hidden] in the model's form
  std::vector<float> positions, types;  // empty: there are none
  LayerNorm norm, last_norm;            // of the embeddings, of the states; the latter may be empty
  std::vector<BertLayer> layers;
};

// Errors: INVALID_ARGUMENT naming the array, RESOURCE_EXHAUSTED.
base::Result<BertWeights> load_bert_weights(const BertShape& shape, const Store& store, WeightFormat form,
                                            ThreadTeam& team);

class Bert final : public HostEncoder {
 public:
  // `max_length` is at most the shape's. Errors: RESOURCE_EXHAUSTED.
  static base::Result<std::unique_ptr<Bert>> make(BertShape shape, BertWeights weights, WeightFormat form,
                                                  const Kernels& kernels, std::unique_ptr<ThreadTeam> team,
                                                  uint32_t max_length, uint32_t pack_tokens);

  const EncoderLimits& limits() const override { return limits_; }
  base::Status run(const Pack& pack) override;

 private:
  // Queries of one text and one head that are attended to together.
  struct Span {
    uint32_t text, head, first, count;
  };
  Bert(BertShape shape, BertWeights weights, WeightFormat form, const Kernels& kernels,
       std::unique_ptr<ThreadTeam> team, EncoderLimits limits);

  void state(uint32_t token, float* out) const override;
  bool make_room();
  void plan(const Pack& pack);
  void look_up(const Pack& pack);
  void normalize(const LayerNorm& norm, uint32_t tokens);
  void normalize_aside(const LayerNorm& norm, uint32_t tokens);
  void run_layer(uint32_t index, const Pack& pack);
  void place(const Pack& pack, uint32_t layer, uint32_t head);
  void turn(float* x, uint32_t layer, uint32_t token) const;
  void attend(const Pack& pack, uint32_t layer);
  void feed_forward(const BertLayer& layer, uint32_t tokens);
  float* row(uint32_t token) { return x_.as<float>() + token * x_stride_; }
  // The input of the next product: the residual stream itself, or what is made of it beside.
  Activations activations() const;

  const BertShape shape_;
  const BertWeights weights_;
  const WeightFormat form_;
  const size_t f_;  // index of the form in Kernels
  const Kernels& kernels_;
  std::unique_ptr<ThreadTeam> team_;
  const EncoderLimits limits_;
  Multiplier multiply_;
  const uint32_t padded_;  // dimensions of a head, up to a multiple of 16
  const size_t x_stride_;  // floats
  const bool aside_;       // products read narrow_
  const Shape turning_;    // of it what says how heads turn
  RotaryTables rotary_;

  // Arrays of one pack.
  std::vector<Span> pieces_;
  std::vector<uint32_t> tiles_of_;  // per text: where its tiles begin
  uint32_t tiles_ = 0;              // of one head
  uint64_t attention_work_ = 0;     // positions looked at
  Memory x_, narrow_;               // [tokens][hidden]: the residual stream, and what products read of it
  Memory qkv_;                      // floats [tokens][3 * hidden]
  Memory mixed_, inner_;            // activations: [tokens][hidden], [tokens][intermediate]
  Memory queries_;                  // activations [head][tokens][padded]
  Memory kv_;                       // [head][tile]
  Memory scratch_;                  // attention, per thread
};

}  // namespace weir::llm
