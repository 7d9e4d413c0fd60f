// Checks the kernels of libweir_cuda.so on the GPU of this machine against their host versions, the whole model against
// the CPU, and measures: `gpu_check RESULTS.json [checks|rehearse] [section…]`. Sections: see kSections; without any
// all of them. They are there to be run one by one: a kernel that fails ends the program. Exit 77 where there is no
// GPU.
//
// With `checks` no benches are run and shapes are small (for compute-sanitizer). `rehearse` does all of it in tiny
// shapes, on the host with the kernels' host versions where there is no GPU: that it works, not how fast.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "device/devices.h"
#include "device/pool.h"
#include "engines/identity/identity.h"
#include "engines/llm/cuda/reference.h"
#include "lab.h"
#include "model.h"

namespace weir::gpu {
namespace {

constexpr size_t kRows = 64;

// 64 images of 3x224x224 floats.
size_t batch_bytes(const Lab& lab) { return kRows * (lab.scale == Lab::Scale::kTiny ? 1'200 : 602'112); }

}  // namespace

void bench_copies(Lab& lab) {
  const size_t batch = batch_bytes(lab);
  auto there = lab.device.pin(batch), back = lab.device.pin(batch);
  auto other = lab.device.stream();
  auto event = lab.device.event();
  if (!there || !back || !other || !event) return lab.check("pinned memory and streams", 1, 0);
  auto in = lab.room(batch), out = lab.room(batch);
  device::Copy up{in.data(), there->data(), batch}, down{back->data(), out.data(), batch};
  auto go_up = [&] { (void)lab.device.copy(lab.stream, device::Way::kToDevice, {&up, 1}); };
  double to_device = double(batch) / lab.time(go_up) / 1e9;
  lab.bench("host to device, one slab", to_device, "GB/s");
  double to_host = double(batch) / lab.time([&] {
    (void)lab.device.copy(lab.stream, device::Way::kToHost, {&down, 1});
  }) / 1e9;
  lab.bench("device to host, one slab", to_host, "GB/s");
  std::vector<device::Copy> rows;
  for (size_t i = 0; i < kRows; ++i)
    rows.push_back({in.data() + i * batch / kRows, there->data() + i * batch / kRows, batch / kRows});
  double batched =
      double(batch) / lab.time([&] { (void)lab.device.copy(lab.stream, device::Way::kToDevice, rows); }) / 1e9;
  lab.bench("host to device, 64 rows in one call", batched, "GB/s", to_device);
  double both = 2 * double(batch) / lab.time([&] {
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
  wanted.name = "echo", wanted.parameters["device"] = lab.device.info().id;
  auto engine = identity::load(wanted, {&devices, &pool, {}});
  if (!engine) return lab.check("identity on the device: " + engine.error().text, 1, 0);
  const size_t bytes = batch_bytes(lab);
  base::Block block(pool.take(bytes));
  block.resize(bytes);
  for (size_t i = 0; i < bytes; ++i) block.data()[i] = std::byte(i * 7 >> 3);
  sched::Batch batch;
  batch.rows = kRows;
  batch.inputs = {{"x", msg::DType::kFp32, {kRows, int64_t(bytes / kRows / sizeof(float))}, block.freeze()}};
  double best = 1e9;
  for (int i = 0; i < 20; ++i) {
    auto began = std::chrono::steady_clock::now();
    bool good = (*engine)->step(batch).ok();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
    if (!good) return lab.check("identity on the device", 1, 0);
  }
  bool same = std::memcmp(batch.outputs[0].data.data(), batch.inputs[0].data.data(), bytes) == 0;
  lab.check("identity on the device", same ? 0 : 1, 0);
  lab.bench("identity on the device, both ways", 2 * double(bytes) / best / 1e9, "GB/s");
}

namespace {

// A kernel that reads where nothing is; or the stand-in's word for it.
void break_device(Lab& lab) {
  if (lab.scale == Lab::Scale::kTiny) {
    ::setenv("WEIR_FAKE_CUDA", "lost", 1);
    return;
  }
  auto ids = lab.put(std::vector<uint32_t>{0});
  auto stream = lab.room(1024 * sizeof(float));
  const auto* nowhere = reinterpret_cast<const llm::cuda::Bf16*>(size_t(1) << 20);
  lab.ran(lab.kernels->embed(lab.launch, {Lab::in<float>(stream), nowhere, Lab::in<uint32_t>(ids), 1, 1024}), "embed");
}

}  // namespace

// The device is lost. Where it starts anew in this process, its kernels and libcublasLt are right in its next life; a
// driver may also keep it from a process that had a fault (an H100's, 580: cudaErrorDevicesUnavailable after a reset
// that succeeds), which must then be said. What a server does in either case is device.on_fault.
void check_fault(Lab& lab, device::Devices&) {
  if (lab.device.info().index < 0) return;  // the host's is never lost
  break_device(lab);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (lab.device.fault().ok() && std::chrono::steady_clock::now() < until)
    if (lab.device.record(lab.event, lab.stream).ok()) (void)lab.device.progress(lab.event);
  lab.check("a kernel that reads nowhere is a fault of the device", lab.device.fault().ok() ? 1 : 0, 0);
  const auto status = lab.device.restart();
  const bool told = status.text.find("it takes a restart of the server") != status.text.npos;
  lab.check("the device starts anew, or says that the server must", status.ok() || told ? 0 : 1, 0);
  if (!status.ok()) return (void)std::fprintf(stderr, "%s\n", status.text.c_str());
  Lab next = lab.after_restart();
  check_products(next);
  for (auto& result : next.results) lab.results.push_back(std::move(result));
}

}  // namespace weir::gpu

namespace {

using namespace weir;

const llm::cuda::Kernels* kernels_of(const device::Devices& devices) {
  auto open = reinterpret_cast<llm::cuda::OpenKernels>(devices.module().symbol(llm::cuda::kKernelsEntry));
  return open ? open(llm::cuda::kKernelsAbi) : nullptr;
}

struct Section {
  enum class Kind : uint8_t { kCheck, kBench } kind;
  const char* name;
  void (*run)(gpu::Lab&, device::Devices&);
};
constexpr Section kSections[] = {
    {Section::Kind::kCheck, "rows", [](gpu::Lab& lab, device::Devices&) { gpu::check_rows(lab); }},
    {Section::Kind::kCheck, "attention", [](gpu::Lab& lab, device::Devices&) { gpu::check_attention(lab); }},
    {Section::Kind::kCheck, "codes", [](gpu::Lab& lab, device::Devices&) { gpu::check_kv_codes(lab); }},
    {Section::Kind::kCheck, "draws", [](gpu::Lab& lab, device::Devices&) { gpu::check_draws(lab); }},
    {Section::Kind::kCheck, "encoder", [](gpu::Lab& lab, device::Devices&) { gpu::check_encoder(lab); }},
    {Section::Kind::kCheck, "products", [](gpu::Lab& lab, device::Devices&) { gpu::check_products(lab); }},
    {Section::Kind::kCheck, "experts", [](gpu::Lab& lab, device::Devices&) { gpu::check_experts(lab); }},
    {Section::Kind::kCheck, "model", [](gpu::Lab& lab, device::Devices&) { gpu::check_model(lab); }},
    {Section::Kind::kCheck, "parallel", gpu::check_parallel},
    {Section::Kind::kCheck, "identity", gpu::bench_identity},
    {Section::Kind::kCheck, "fault", gpu::check_fault},
    {Section::Kind::kBench, "copies", [](gpu::Lab& lab, device::Devices&) { gpu::bench_copies(lab); }},
    {Section::Kind::kBench, "kernels", [](gpu::Lab& lab, device::Devices&) { gpu::bench_kernels(lab); }},
    {Section::Kind::kBench, "1B", [](gpu::Lab& lab, device::Devices&) { gpu::bench_model(lab, gpu::Benched::k1B); }},
    {Section::Kind::kBench, "8B", [](gpu::Lab& lab, device::Devices&) { gpu::bench_model(lab, gpu::Benched::k8B); }},
    {Section::Kind::kBench, "mixture",
     [](gpu::Lab& lab, device::Devices&) { gpu::bench_model(lab, gpu::Benched::kMixture); }},
    {Section::Kind::kBench, "split", gpu::bench_parallel},
};

using Names = std::vector<std::string_view>;

int run(gpu::Lab& lab, device::Devices& devices, const Names& chosen, const char* json_file) {
  lab.ran(lab.kernels->load(std::max(lab.device.info().index, 0)), "load");
  for (const Section& section : kSections) {
    bool named = std::find(chosen.begin(), chosen.end(), section.name) != chosen.end();
    if (!named && section.run == gpu::check_fault) continue;  // the sanitizers would tell of it
    bool fits = section.kind == Section::Kind::kCheck || lab.scale != gpu::Lab::Scale::kSmall;
    if (named || (chosen.empty() && fits)) section.run(lab, devices);
  }
  return lab.finish(json_file);
}

}  // namespace

int main(int argc, char** argv) {
  using Scale = gpu::Lab::Scale;
  const char* json_file = argc > 1 ? argv[1] : "gpu-results.json";
  Names words(argv + std::min(argc, 2), argv + argc);
  Scale scale = Scale::kFull;
  if (!words.empty() && (words[0] == "checks" || words[0] == "rehearse")) {
    scale = words[0] == "checks" ? Scale::kSmall : Scale::kTiny;
    words.erase(words.begin());
  }
  device::Devices devices({});
  if (devices.cuda_count() == 0 && scale == Scale::kTiny) {
    gpu::Lab lab(
        **devices.find("host"), &llm::cuda::reference::table(),
        [](llm::cuda::Code code) { return "code " + std::to_string(code); }, scale);
    return run(lab, devices, words, json_file);
  }
  if (devices.cuda_count() == 0) {
    std::printf("%s\n", devices.cuda().text.c_str());
    return 77;
  }
  static auto text_of = devices.module().api->words;
  gpu::Lab lab(
      devices.cuda(0), kernels_of(devices), [](llm::cuda::Code code) { return std::string(text_of(code)); }, scale);
  return run(lab, devices, words, json_file);
}
