// Transformer: the forward pass on the CPU, as a TokenEngine.
//
// Every row of a step goes through the same additions in the same order whatever else is in the step, and attention
// reads keys and values from the cache even for the tokens of the step itself. So a sequence's logits are the same to
// the last bit alone, in a batch, in chunks, after a cached prefix and after a fork.
#pragma once

#include <functional>
#include <memory>

#include "base/host_memory.h"
#include "engines/llm/cpu/adapters.h"
#include "engines/llm/cpu/experts.h"
#include "engines/llm/cpu/kv_cache.h"
#include "engines/llm/cpu/matrix.h"
#include "engines/llm/cpu/rotary.h"
#include "engines/llm/cpu/sampler.h"
#include "engines/llm/cpu/weights.h"
#include "engines/llm/vision/vision_encoder.h"
#include "generation/engine.h"

namespace weir::llm {

// All that a folder holds, loaded.
struct Model {
  Shape shape;
  WeightFormat form = WeightFormat::kF32;
  KvFormat kv_format = KvFormat::kAsComputed;
  Weights weights;
  std::vector<AdapterWeights> adapters;
  Readouts readouts;
  std::unique_ptr<VisionEncoder> vision_encoder;  // null: the model does not see
  std::shared_ptr<const msg::TextSpec> text;

  uint64_t weight_bytes() const;  // of the matrices, those of adapters and of the vision encoder among them
};

class Transformer final : public generation::TokenEngine {
 public:
  // `step_tokens`: the most that one step has.
  // `free_memory`: AdapterStore::Base's.
  Transformer(Model model, const Kernels& kernels, std::unique_ptr<ThreadTeam> team, uint32_t step_tokens,
              std::function<uint64_t()> free_memory = {});

  const msg::TextSpec& text() const override { return *model_.text; }
  uint32_t adapters() const override { return adapters_.store()->made_with(); }
  std::shared_ptr<msg::AdapterLoader> adapter_loader() const override { return adapters_.store(); }
  size_t kv_bytes(size_t positions) const override { return kv_.bytes(positions); }
  base::Status reserve(uint32_t blocks, uint32_t block_size) override;
  // The promise of the memory that reserve() takes.
  void keep(base::HostMemory::Reservation promise) { promise_ = std::move(promise); }
  base::Status step(generation::TokenStep& step) override;
  void copy_block(uint32_t from, uint32_t to, uint32_t positions) override { kv_.copy(from, to, positions); }
  base::Result<generation::ImageFeatures> encode_image(const msg::Image& image) override;
  bool encodes_aside() const override { return true; }
  base::Result<generation::ImageFeatures> encode_image_aside(const msg::Image& image) override;

  // A token's hidden state after the last step's last norm: hidden_size floats, zeros up to a multiple of 16.
  void last_state(uint32_t token, float* out) const;
  const Shape& shape() const { return shape_; }

  // The logits of a step's requests, where a test sets it.
  std::vector<float>* logits_for_tests = nullptr;

 private:
  using Step = generation::TokenStep;
  // Queries of one row and one key head that are attended to together: tokens [first, first + count) of the row.
  struct Span {
    uint32_t row, head, first, count;
  };

  void embed(const Step& step);
  void plan_attention(const Step& step);
  void plan_attention(const Step& step, uint32_t row, uint32_t head);
  void keep_all(const Step& step);
  void keep_wanted(const Step& step);
  void run_layer(const Step& step, uint32_t index);
  void feed_forward(uint32_t layer);
  void place(const Step& step, uint32_t layer, uint32_t head);
  void rotate(const float* x, const float* norm, const float* cosines, uint32_t half, float* out) const;
  void attend(const Step& step, uint32_t layer);
  const float* hidden_of(uint32_t token) const { return hidden_.as<float>() + size_t(at_[token]) * shape_.hidden; }
  void norm(const std::vector<float>& weight, uint32_t rows, const float* from, std::byte* to);
  void add_product(Activations x, const Matrix& w, const std::vector<float>& norm, uint32_t layer,
                   Adapters::Which which);
  void read_out(Step& step, uint32_t layer);
  void sample(Step& step);
  void pool(Step& step);

  Model model_;
  const Shape& shape_;
  const Kernels& kernels_;
  std::unique_ptr<ThreadTeam> team_;
  bool joined_ = false;  // the thread that steps
  Multiplier multiply_;
  Adapters adapters_;
  std::unique_ptr<Experts> experts_;  // null: no layer is a mixture
  // One thread's work, beside the steps.
  struct Aside {
    Aside(const Kernels& kernels, uint32_t rows) : multiply(kernels, team, rows) {}
    ThreadTeam team{1};
    Multiplier multiply;
  };
  std::unique_ptr<Aside> aside_;  // null: the model does not see
  KvCache kv_;
  RotaryTables rotary_;
  base::HostMemory::Reservation promise_;  // of kv_; ends before it
  const uint32_t max_tokens_;
  const size_t f_;                 // index of the form in Kernels
  std::vector<Sampler> samplers_;  // per thread
  // The tokens whose hidden state goes on: all tokens of the step, until the last layer has their keys and values; from
  // there on those whose logits, readouts or sums are wanted. Theirs lie at the front of hidden_, in their order.
  std::vector<uint8_t> kept_;  // by flat token
  std::vector<uint32_t> at_;   // row of hidden_, by flat token that is kept
  uint32_t rows_ = 0;          // that are kept
  std::vector<Span> pieces_;
  uint64_t attention_work_ = 0;  // of the step, in positions looked at

  // Arrays of one step. Strides: activation_stride() of their widths.
  Memory hidden_;                  // floats [rows][hidden]: the residual stream
  Memory normed_, mixed_, gated_;  // activations: [rows][hidden], [rows][heads * head_dim], [rows][intermediate]
  Memory qkv_;                     // floats [tokens][q, k, v]
  Memory branch_;   // floats [rows][hidden]: what attention or the MLP adds, where it is not added as it is
  Memory queries_;  // activations [key head][tokens][group][head_dim]
  Memory scratch_;  // attention, per thread
  Memory logits_;   // floats [kLogitsRows][vocabulary]
};

}  // namespace weir::llm
