// Activations: the memory on a device in which one step is computed, a piece for each array.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/device.h"
#include "engines/llm/cuda/expert_activations.h"
#include "engines/llm/cuda/kernels.h"
#include "engines/llm/load/shape.h"

namespace weir::llm::cuda {

struct Activations {
  // For steps of so many tokens, with logits of `logits_rows` at once. Errors: RESOURCE_EXHAUSTED, UNAVAILABLE.
  base::Status allocate(device::Device& device, const Shape& shape, size_t tokens, size_t logits_rows);

  float* residual = nullptr;                  // [tokens][hidden]: the residual stream
  Bf16* normed = nullptr;                     // [tokens][hidden]
  Bf16* qkv = nullptr;                        // [tokens][heads and twice kv_heads][dim]
  Bf16 *queries = nullptr, *mixed = nullptr;  // [tokens][heads][dim]: before and after attention
  // [tokens][2][the widest MLP or shared expert]; also where the rows that go on are on their way to the front.
  Bf16* gates = nullptr;
  Bf16* gated = nullptr;               // [tokens][the same]
  Bf16* gathered = nullptr;            // [logits_rows][hidden]: the tokens whose logits are wanted
  float* logits = nullptr;             // [logits_rows][vocabulary]
  float* adjusted = nullptr;           // [kAdjustedAtOnce][vocabulary]
  uint32_t* sampled = nullptr;         // ids that the last step's logits requests have sampled
  uint32_t* sampled_before = nullptr;  // those of the step before, for penalties, while `sampled` is written
  std::byte* workspace = nullptr;      // kWorkspace bytes for products

  ExpertActivations experts;  // of a model that has some

  device::DeviceBuffer memory;
  uint64_t bytes = 0;
};

}  // namespace weir::llm::cuda
