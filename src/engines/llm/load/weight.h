// Weight: a matrix [outputs][inputs] of a checkpoint, stored as numbers or quantized (quantization.h).
//
//   GPTQ    qweight I32 [inputs / n][outputs], n codes in each, the first lowest; qzeros I32 [groups][outputs / n];
//           scales [groups][outputs]; perhaps g_idx I32 [inputs], the group of each input
//   AWQ     qweight I32 [inputs][outputs / 8], qzeros I32 [groups][outputs / 8], both in the order 0 2 4 6 1 3 5 7;
//           scales [groups][outputs]
//   FP8     weight F8_E4M3, weight_scale_inv [blocks of outputs][blocks of inputs]; or weight_scale, one
//   compressed-tensors
//           weight_packed I32 [outputs][inputs / n], or weight I8 or F8_E4M3; weight_scale [outputs][groups], of
//           blocks, or one; perhaps weight_zero_point, packed along the outputs or I8; perhaps weight_g_idx
//   MXFP4   blocks U8 [outputs][inputs / 32][16], two numbers of E2M1 in each, the first lowest; scales U8
//           [outputs][inputs / 32], exponents of two
//   GGUF    weight in blocks (gguf_blocks.h)
//
// https://github.com/AutoGPTQ/AutoGPTQ, https://github.com/casper-hansen/AutoAWQ,
// https://github.com/vllm-project/compressed-tensors
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engines/llm/load/coding.h"
#include "engines/llm/load/quantization.h"
#include "engines/llm/load/store.h"

namespace weir::llm {

class Weight {
 public:
  // `name` is without ".weight". Borrows from the store. Errors: as Store::find(); a scale that is not finite.
  static base::Result<Weight> find(const Store& store, const Quantization& how, const std::string& name,
                                   uint32_t outputs, uint32_t inputs);

  // Bytes that find() takes for scales and zero points, at most.
  static uint64_t scale_memory(const Quantization& how, uint32_t outputs, uint32_t inputs);

  // An array [outputs][inputs] of floats, which is borrowed.
  explicit Weight(const Array& floats)
      : outputs_(uint32_t(floats.shape[0])), inputs_(uint32_t(floats.shape[1])), group_(inputs_), values_(&floats) {}

  uint32_t outputs() const { return outputs_; }
  uint32_t inputs() const { return inputs_; }
  // How it can be kept with nothing rounded. kWhole also for what no Coding can say: codes of 8 bits with zero points,
  // inputs whose groups are mixed.
  Coding coding() const { return coding_; }
  // Whether those that share a scale share an offset, too.
  bool offsets() const;
  // Whether all zero points of a kInt4 are 8, the middle.
  bool middle_zeros() const;
  bool is_quantized() const { return form_ != Form::kFloats; }
  // Inputs that share a scale.
  uint32_t group() const { return group_; }
  uint32_t groups() const { return (inputs_ + group_ - 1) / group_; }

  // The array of one that is stored as floats, in order; null: it is quantized, or its rows are not in order.
  const Array* whole() const {
    return form_ == Form::kFloats && values_->head_rows == 0 && !values_->swapped ? values_ : nullptr;
  }
  // The numbers of one output: `inputs` of them.
  void floats(uint32_t output, float* to) const;
  // As coding() says, which is not kWhole: `inputs` codes, and `groups` scales, zero points (0 but for kInt4) and
  // offsets.
  struct Codes {
    uint8_t* codes;
    float* scales;
    uint8_t* zeros;
    float* offsets;
  };
  void codes(uint32_t output, Codes to) const;

 private:
  enum class Form : uint8_t { kFloats, kBlocks, kGptq, kAwq, kPacked, kInt8, kFp8, kMxfp4 };

  Weight(uint32_t outputs, uint32_t inputs) : outputs_(outputs), inputs_(inputs), group_(inputs) {}
  base::Status find(const Store& store, const Quantization& how, const std::string& name);
  base::Status find_floats(const Store& store, const std::string& name);
  base::Status find_grouped(const Store& store, const Quantization& how, const std::string& name);
  base::Status find_compressed(const Store& store, const Quantization& how, const std::string& name);
  base::Status find_mxfp4(const Store& store, const std::string& name);
  base::Status find_scales(const Store& store, const Quantization& how, const std::string& name);
  base::Status find_zeros(const Store& store, const std::string& name);
  base::Status find_order(const Store& store, const std::string& name);
  Coding closest() const;
  void set_group(uint32_t group) { group_ = group > 0 && group < inputs_ ? group : inputs_; }
  uint32_t per_word() const { return 32 / bits_; }
  float exponent(uint32_t output, uint32_t group) const;
  uint32_t code(uint32_t output, uint32_t input) const;
  void codes_of_blocks(uint32_t output, Codes to) const;
  size_t scale_at(uint32_t output, uint32_t group) const {
    return size_t(output / block_outputs_) * output_stride_ + size_t(group) * group_stride_;
  }

  uint32_t outputs_, inputs_, group_;
  Form form_ = Form::kFloats;
  Coding coding_ = Coding::kWhole;
  uint32_t bits_ = 8;
  const Array *values_ = nullptr, *exponents_ = nullptr;  // the latter of kMxfp4
  uint32_t block_outputs_ = 1;                            // that share their scales
  size_t output_stride_ = 0, group_stride_ = 0;           // of scales and zeros
  std::vector<float> scales_;
  std::vector<uint8_t> zeros_;   // empty: the middle of the codes
  std::vector<uint32_t> order_;  // the group of each input, where they are mixed
};

}  // namespace weir::llm
