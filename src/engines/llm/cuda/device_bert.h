// DeviceBert: the forward pass of BERT's family on a device, as an Encoder. Heads are as wide as the kernels know them
// (64, 128, 256), filled up with zeros.
#pragma once

#include <memory>
#include <vector>

#include "engines/llm/cuda/device_encoder.h"
#include "engines/llm/encoder/bert_shape.h"
#include "engines/llm/load/store.h"

namespace weir::llm::cuda {

// Addresses on the device.
struct DeviceNorm {
  const float *weight = nullptr, *bias = nullptr;
};
struct DeviceBertLayer {
  const Bf16 *qkv = nullptr, *out = nullptr, *up = nullptr, *down = nullptr;
  const float *qkv_bias = nullptr, *out_bias = nullptr, *up_bias = nullptr, *down_bias = nullptr;
  DeviceNorm attention_norm, norm;
};
struct DeviceBertWeights {
  uint32_t head_dim = 0;  // with the zeros
  const Bf16* words = nullptr;
  const float *types = nullptr, *places = nullptr;  // types: null when the model has none
  DeviceNorm norm;
  std::vector<DeviceBertLayer> layers;
  std::vector<device::DeviceBuffer> memory;
};

// Waits. Errors: INVALID_ARGUMENT (an array that is missing or of another shape), RESOURCE_EXHAUSTED, UNAVAILABLE.
base::Result<DeviceBertWeights> load_device_bert(const BertShape& shape, const Store& store, device::Device& device);

class DeviceBert final : public DeviceEncoder {
 public:
  // `device` and `kernels` outlive it; `max_length` is at most the shape's. Errors: as check(), RESOURCE_EXHAUSTED,
  // UNAVAILABLE.
  static base::Result<std::unique_ptr<DeviceBert>> make(device::Device& device, const Kernels& kernels, BertShape shape,
                                                        DeviceBertWeights weights, uint32_t max_length,
                                                        uint32_t pack_tokens, DeviceEncoderOptions options);
  // Whether it can run this: UNIMPLEMENTED, FAILED_PRECONDITION (the module lacks kernels).
  static base::Status check(const BertShape& shape, const device::Device& device, const Kernels& kernels);

 private:
  DeviceBert(device::Device& device, const Kernels& kernels, BertShape shape, DeviceBertWeights weights,
             EncoderLimits limits, DeviceEncoderOptions options);

  base::Status forward(const Args& args) override;
  base::Status run_layer(const DeviceBertLayer& layer, const Args& args);
  base::Status norm(const DeviceNorm& norm, uint32_t tokens);

  const BertShape shape_;
  const DeviceBertWeights weights_;
};

}  // namespace weir::llm::cuda
