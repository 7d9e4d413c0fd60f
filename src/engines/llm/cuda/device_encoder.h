// DeviceEncoder: what encoders on a device share. On CUDA with the module's kernels; on the host's devices with those
// of reference.h, so that all of this but the kernels is tested everywhere.
//
// A pack goes to the device as one copy, the sums of its texts come back as one. Keys and values of a layer live in
// slots, a text after the other, each from a multiple of 16: its block table is a piece of one that counts.
//
// Small packs run as graphs (graph_set.h), one per bucket (plan.h), captured as the options say.
//
// When the device is lost every pack fails with UNAVAILABLE and `broken` is called, once.
#pragma once

#include <chrono>
#include <functional>

#include "device/device.h"
#include "engines/llm/cuda/graph_set.h"
#include "engines/llm/cuda/kernel_queue.h"
#include "engines/llm/cuda/plan.h"
#include "engines/llm/encoder/encoder.h"

namespace weir::llm::cuda {

struct DeviceEncoderOptions {
  std::function<void(base::Status)> broken{};
  Graphs graphs = Graphs::kOn;
  std::chrono::nanoseconds capture_time{0};  // for graphs before the first pack; 0: each when it is wanted again
};

class DeviceEncoder : public Encoder {
 public:
  ~DeviceEncoder() override;

  const EncoderLimits& limits() const override { return limits_; }
  base::Status run(const Pack& pack) override;
  void sum(size_t text, float* out) const override;
  size_t graphs() const { return graphs_.size(); }

 protected:
  // The model's shape: heads of queries, of keys and values, and their dimensions; elements of a token inside of a
  // layer's second half, before and after the activation (gated 0: in place).
  struct Widths {
    uint32_t heads = 0, kv_heads = 0, dim = 0, inner = 0, gated = 0;
  };
  // A pack's arguments on the device; kinds are there where limits().types is not 0.
  struct Args {
    const uint32_t *ids = nullptr, *kinds = nullptr, *positions = nullptr, *slots = nullptr;
    const Chunk* chunks = nullptr;
    const Tile* tiles = nullptr;
    const PoolRange* ranges = nullptr;    // of each text
    uint32_t tokens = 0, tile_count = 0;  // with the idle ones
    uint32_t texts = 0;
    PackBucket bucket{};  // that it was filled up to
  };
  using Mask = decltype(PrefillAttention::mask);

  // `device` and `kernels` outlive it.
  DeviceEncoder(device::Device& device, const Kernels& kernels, EncoderLimits limits, Widths widths,
                DeviceEncoderOptions options);
  // Before the first pack. Errors: RESOURCE_EXHAUSTED, UNAVAILABLE, FAILED_PRECONDITION.
  base::Status start();
  // Queues all from the embedding to the states, which `rows_` has at the end.
  virtual base::Status forward(const Args& args) = 0;

  // queries_ over keys_ and values_ into mixed_.
  base::Status attend(const Args& args, Mask mask, uint32_t window, float scale);

  KernelQueue queue_;
  const EncoderLimits limits_;
  const Widths widths_;
  float* rows_ = nullptr;                                         // [tokens][hidden]: the residual stream
  Bf16 *narrow_ = nullptr, *qkv_ = nullptr, *queries_ = nullptr;  // narrow: of the stream, for products
  Bf16 *mixed_ = nullptr, *inner_ = nullptr, *gated_ = nullptr, *keys_ = nullptr, *values_ = nullptr;
  const uint32_t* zeros_ = nullptr;  // as many as a pack has tokens, or a head dimensions

 private:
  base::Status make_room();
  base::Status upload_constants();
  Args write(const Pack& pack);
  Args write(const Pack& pack, PackBucket bucket);
  base::Status warm();
  base::Status warm_graphs();
  base::Status choose_products();
  base::Status send();
  base::Status queue(const Pack& pack);

  DeviceEncoderOptions options_;
  device::DeviceBuffer room_, args_, constants_, sums_;
  device::PinnedBlock in_, out_;
  size_t args_bytes_ = 0;  // of the pack
  GraphSet graphs_;
  std::byte* workspace_ = nullptr;
  const uint32_t* table_ = nullptr;  // 0, 1, 2, …
};

}  // namespace weir::llm::cuda
