// Checks and benches on a real GPU: gpu_check RESULTS.json [checks]. Exit 77 where there is none. With `checks` no
// benches are run and shapes are small (for compute-sanitizer).
#include <algorithm>
#include <cstring>

#include "device/devices.h"
#include "device/pool.h"
#include "engines/identity/identity.h"
#include "lab.h"
#include "model.h"

namespace weir::gpu {
namespace {

constexpr size_t kBatch = size_t(64) * 602'112;  // 64 images of 3x224x224 floats

}  // namespace

void bench_copies(Lab& lab) {
  auto there = lab.device.pin(kBatch), back = lab.device.pin(kBatch);
  auto other = lab.device.stream();
  auto event = lab.device.event();
  if (!there || !back || !other || !event) return lab.check("pinned memory and streams", 1, 0);
  auto in = lab.room(kBatch), out = lab.room(kBatch);
  device::Copy up{in.data(), there->data(), kBatch}, down{back->data(), out.data(), kBatch};
  auto go_up = [&] { (void)lab.device.copy(lab.stream, device::Way::kToDevice, {&up, 1}); };
  double to_device = double(kBatch) / lab.time(go_up) / 1e9;
  lab.bench("host to device, one slab", to_device, "GB/s");
  double to_host = double(kBatch) / lab.time([&] {
    (void)lab.device.copy(lab.stream, device::Way::kToHost, {&down, 1});
  }) / 1e9;
  lab.bench("device to host, one slab", to_host, "GB/s");
  std::vector<device::Copy> rows;
  for (size_t i = 0; i < 64; ++i)
    rows.push_back({in.data() + i * kBatch / 64, there->data() + i * kBatch / 64, kBatch / 64});
  double batched =
      double(kBatch) / lab.time([&] { (void)lab.device.copy(lab.stream, device::Way::kToDevice, rows); }) / 1e9;
  lab.bench("host to device, 64 rows in one call", batched, "GB/s", to_device);
  double both = 2 * double(kBatch) / lab.time([&] {
    go_up();
    (void)lab.device.copy(*other, device::Way::kToHost, {&down, 1});
    (void)lab.device.record(*event, *other);
    (void)lab.device.wait(lab.stream, *event);
  }) / 1e9;
  lab.bench("both ways at once", both, "GB/s", to_device + to_host);
}

// The engine that takes every byte there and back: right, and how fast.
void bench_identity(Lab& lab, device::Devices& devices) {
  auto memory = devices.slab_memory(uint64_t(512) << 20);
  if (!memory) return lab.check("a pinned pool", 1, 0);
  device::SlabPool pool(uint64_t(512) << 20, std::move(*memory));
  msg::ModelSpec wanted;
  wanted.name = "echo", wanted.parameters["device"] = "cuda:0";
  auto engine = identity::load(wanted, {&devices, &pool, {}});
  if (!engine) return lab.check("identity on the device: " + engine.error().text, 1, 0);
  base::Block block(pool.take(kBatch));
  block.resize(kBatch);
  for (size_t i = 0; i < kBatch; ++i) block.data()[i] = std::byte(i * 7 >> 3);
  sched::Batch batch;
  batch.rows = 64;
  batch.inputs = {{"x", msg::DType::kFp32, {64, 3, 224, 224}, block.freeze()}};
  double best = 1e9;
  for (int i = 0; i < 20; ++i) {
    auto began = std::chrono::steady_clock::now();
    bool good = (*engine)->step(batch).ok();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
    if (!good) return lab.check("identity on the device", 1, 0);
  }
  bool same = std::memcmp(batch.outputs[0].data.data(), batch.inputs[0].data.data(), kBatch) == 0;
  lab.check("identity on the device", same ? 0 : 1, 0);
  lab.bench("identity on the device, both ways", 2 * double(kBatch) / best / 1e9, "GB/s");
}

}  // namespace weir::gpu

int main(int argc, char** argv) {
  using namespace weir;
  device::Devices devices({});
  if (devices.cuda_count() == 0) {
    std::printf("%s\n", devices.cuda().text.c_str());
    return 77;
  }
  const auto& module = devices.module();
  auto open = reinterpret_cast<llm::cuda::OpenKernels>(module.symbol(llm::cuda::kKernelsEntry));
  static auto say = module.api->words;
  bool benches = argc < 3 || std::strcmp(argv[2], "checks") != 0;
  gpu::Lab lab(
      devices.cuda(0), open ? open(llm::cuda::kKernelsAbi) : nullptr,
      [](llm::cuda::Code code) { return std::string(say(code)); },
      benches ? gpu::Lab::Scale::kFull : gpu::Lab::Scale::kSmall);
  gpu::check_rows(lab);
  gpu::check_attention(lab);
  gpu::check_draws(lab);
  gpu::check_encoder(lab);
  gpu::check_products(lab);
  gpu::check_model(lab);
  gpu::bench_identity(lab, devices);
  if (benches) {
    gpu::bench_copies(lab);
    gpu::bench_kernels(lab);
    gpu::bench_model(lab);
  }
  return lab.finish(argc > 1 ? argv[1] : "gpu-results.json");
}
