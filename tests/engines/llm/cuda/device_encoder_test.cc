// An encoder on a device, and the choices that it makes before its first pack.
#include <chrono>
#include <set>
#include <tuple>

#include "device/host_device.h"
#include "device_support.h"
#include "engines/llm/cuda/device_rotary.h"
#include "engines/llm/cuda/matmul.h"

namespace weir::llm {
namespace {

using EncoderProduct = std::tuple<uint32_t, uint32_t, uint32_t>;  // bucket of rows, outputs, inputs

TEST(LlmDeviceEncoder, EveryProductIsChosenBeforeTheFirstPack) {
  static std::set<EncoderProduct> multiplied;
  static cuda::Kernels kernels = cuda::reference::table();
  kernels.matmul = [](const cuda::Launch& launch, cuda::Matmuls* matmuls, const cuda::Matmul& a) {
    if (a.rows > cuda::kThinRows) multiplied.insert({cuda::row_bucket(a.rows), a.outputs, a.inputs});
    return cuda::reference::table().matmul(launch, matmuls, a);
  };
  auto folder = Folder::open(kChat);
  auto shape = parse_shape(folder->read("config.json", 1 << 20).value());
  ASSERT_TRUE(shape);
  shape->encoder = true, shape->causal = false, shape->layers = 1, shape->windows.resize(1);
  device::HostDevice host;
  for (auto graphs : {Graphs::kOn, Graphs::kOff}) {
    multiplied.clear();
    auto weights = cuda::random_device_weights(*shape, 1, host);
    ASSERT_TRUE(weights);
    const EncoderLimits limits{shape->vocabulary, 0, shape->hidden, 320, 320, 0, Places::kAmongTokens};
    cuda::DeviceEncoderOptions options;
    options.graphs = graphs, options.capture_time = std::chrono::nanoseconds(1);
    auto encoder = cuda::DeviceRotary::make(host, kernels, *shape, std::move(*weights), limits, std::move(options));
    ASSERT_TRUE(encoder) << encoder.error().text;
    const auto at_load = multiplied;
    EXPECT_FALSE(at_load.empty());
    for (uint32_t length : {37u, 55u, 300u}) {
      Pack pack;
      pack.texts.push_back({0, length});
      for (uint32_t i = 0; i < length; ++i) pack.ids.push_back(i), pack.positions.push_back(i);
      EXPECT_EQ((*encoder)->run(pack), base::Status());
    }
    EXPECT_EQ(multiplied, at_load);
  }
}

}  // namespace
}  // namespace weir::llm
