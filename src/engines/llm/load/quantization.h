// Quantization: how config.json says that a checkpoint's matrices are stored in fewer bits ("quantization_config").
#pragma once

#include <cstdint>

#include "engines/llm/load/fields.h"

namespace weir::llm {

enum class QuantMethod : uint8_t {
  kNone,
  kGptq,        // AutoGPTQ, GPTQModel: qweight, qzeros, scales, perhaps g_idx
  kAwq,         // AutoAWQ's GEMM form: qweight, qzeros, scales
  kFp8,         // weight in FP8 (E4M3) with weight_scale_inv, for blocks of it
  kMxfp4,       // blocks of 32 numbers of 4 bits that share an exponent (expert_arrays.h)
  kCompressed,  // compressed-tensors: weight_packed, or weight in int8 or FP8, with weight_scale
};

struct Quantization {
  QuantMethod method = QuantMethod::kNone;
  uint32_t bits = 8;                             // of a number that is packed with others: 4 or 8
  uint32_t group = 0;                            // neighbouring inputs that share a scale; 0: all inputs
  uint32_t block_outputs = 1, block_inputs = 0;  // kFp8: what shares a scale; 0: all of them
  bool zeros = false;                            // kCompressed: integers have zero points
  bool zeros_less_one = false;                   // GPTQ's first format stores the zero points less one
};

// From the object that config.json holds. Errors go to `config`: INVALID_ARGUMENT, UNIMPLEMENTED (a method, or a form
// of it, that is not known here).
Quantization read_quantization(ConfigFields& config);

}  // namespace weir::llm
