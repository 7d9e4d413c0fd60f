// DeviceBert: the forward pass of BERT's family on a device, as an Encoder. On CUDA with the module's kernels; on the
// host's device with those of reference.h, so that all of this but the kernels is tested everywhere.
//
// A pack goes to the device as one copy, its last states come back as one. Keys and values of a layer live in slots, a
// text after the other, each from a multiple of 16: its block table is a piece of one that counts. Heads are as wide as
// the kernels know them (64, 128, 256), filled up with zeros.
//
// When the device is lost every pack fails with UNAVAILABLE and `broken` is called, once.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "device/await.h"
#include "device/device.h"
#include "engines/llm/bert_shape.h"
#include "engines/llm/cuda/kernels.h"
#include "engines/llm/encoder.h"
#include "engines/llm/weights.h"

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

class DeviceBert final : public Encoder {
 public:
  // `device` and `kernels` outlive it; `max_length` is at most the shape's. Errors: as check(), RESOURCE_EXHAUSTED,
  // UNAVAILABLE.
  static base::Result<std::unique_ptr<DeviceBert>> make(device::Device& device, const Kernels& kernels, BertShape shape,
                                                        DeviceBertWeights weights, uint32_t max_length,
                                                        uint32_t pack_tokens, std::function<void(base::Status)> broken);
  ~DeviceBert() override;
  // Whether it can run this: UNIMPLEMENTED, FAILED_PRECONDITION (the module lacks kernels).
  static base::Status check(const BertShape& shape, const device::Device& device, const Kernels& kernels);

  const EncoderLimits& limits() const override { return limits_; }
  base::Status run(const Pack& pack) override;
  void state(uint32_t token, float* out) const override;

 private:
  // Where a pack's arguments are, in bytes from the beginning of `args_`.
  struct Args {
    size_t ids = 0, kinds = 0, positions = 0, slots = 0, chunks = 0, tiles = 0, bytes = 0;
    uint32_t tile_count = 0;
  };
  DeviceBert(device::Device& device, const Kernels& kernels, BertShape shape, DeviceBertWeights weights,
             EncoderLimits limits, std::function<void(base::Status)> broken);

  base::Status start();
  base::Status make_room();
  base::Status upload_constants();
  Args write(const Pack& pack);
  base::Status queue(const Pack& pack);
  base::Status run_layer(const DeviceBertLayer& layer, const Args& args, uint32_t tokens);
  base::Status norm(const DeviceNorm& norm, uint32_t tokens);
  base::Status multiply(const Bf16* x, uint32_t rows, const Bf16* weight, const float* bias, uint32_t outputs,
                        uint32_t inputs, void* out, Matmul::Into into);
  base::Status drain();
  template <class A>
  base::Status launch(Code (*kernel)(const Launch&, const A&), const A& a);
  template <class T>
  T* arg(size_t offset) const {
    return reinterpret_cast<T*>(args_.data() + offset);
  }

  device::Device& device_;
  const uint32_t epoch_;
  const Kernels& kernels_;
  const BertShape shape_;
  const DeviceBertWeights weights_;
  const EncoderLimits limits_;
  std::function<void(base::Status)> broken_;
  device::Stream stream_;
  device::Event done_;
  Matmuls* matmuls_ = nullptr;

  device::DeviceBuffer room_, args_, constants_;
  device::PinnedBlock in_, out_;
  float* rows_ = nullptr;                                         // [tokens][hidden]: the residual stream
  Bf16 *narrow_ = nullptr, *qkv_ = nullptr, *queries_ = nullptr;  // narrow: of the stream, for products
  Bf16 *mixed_ = nullptr, *inner_ = nullptr, *keys_ = nullptr, *values_ = nullptr;
  std::byte* workspace_ = nullptr;
  // Of constants_: 0, 1, 2, … for block tables; zeros for positions and frequencies, since nothing is turned.
  const uint32_t *table_ = nullptr, *no_positions_ = nullptr;
  const float* no_frequencies_ = nullptr;
};

}  // namespace weir::llm::cuda
