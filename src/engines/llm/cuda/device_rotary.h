// DeviceRotary: a model of a Llama-like family on a device, as an Encoder: its last hidden states after the last norm.
// Positions see each other in both directions or up to themselves, as the shape says.
#pragma once

#include <memory>

#include "engines/llm/cuda/device_encoder.h"
#include "engines/llm/cuda/device_weights.h"

namespace weir::llm::cuda {

class DeviceRotary final : public DeviceEncoder {
 public:
  // `device` and `kernels` outlive it; of the limits hidden and vocabulary are the shape's. Errors: as check(),
  // RESOURCE_EXHAUSTED, UNAVAILABLE.
  static base::Result<std::unique_ptr<DeviceRotary>> make(device::Device& device, const Kernels& kernels, Shape shape,
                                                          DeviceWeights weights, const EncoderLimits& limits,
                                                          DeviceEncoderOptions options);
  // Whether it can run this: UNIMPLEMENTED, FAILED_PRECONDITION (the module lacks kernels).
  static base::Status check(const Shape& shape, const device::Device& device, const Kernels& kernels);

 private:
  DeviceRotary(device::Device& device, const Kernels& kernels, Shape shape, DeviceWeights weights,
               const EncoderLimits& limits, DeviceEncoderOptions options);

  base::Status forward(const Args& args) override;
  base::Status run_layer(uint32_t index, const Args& args);
  base::Status norm(const Bf16* weight, uint32_t tokens, float* exact = nullptr);

  const Shape shape_;
  const DeviceWeights weights_;
};

}  // namespace weir::llm::cuda
