#include "lab.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/check.h"

namespace weir::gpu {
namespace {

constexpr size_t kPinnedBlock = size_t(64) << 20;

template <class T>
T must(base::Result<T> result) {
  if (!result) std::fprintf(stderr, "%s\n", result.error().text.c_str());
  base::check(result.has_value(), "the GPU gives what a check needs");
  return std::move(*result);
}
void must(const base::Status& status) {
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.text.c_str());
  base::check(status.ok(), "the GPU does what a check asks for");
}

uint32_t seed_of_run() {
  const char* given = std::getenv("WEIR_SEED");
  return given ? uint32_t(std::strtoul(given, nullptr, 10)) : std::random_device{}();
}

}  // namespace

Lab::Lab(device::Device& where, const llm::cuda::Kernels* table, Words words, Scale size)
    : device(where),
      kernels(table),
      scale(size),
      words_(words),
      seed_(seed_of_run()),
      block_(must(device.pin(kPinnedBlock))) {
  base::check(kernels, "the module has the kernels of this build");
  random.seed(seed_);
  stream = must(device.stream());
  event = must(device.event());
  launch.stream = stream.handle().raw;
}

device::DeviceBuffer Lab::make(size_t bytes) { return must(device.buffer(std::max<size_t>(bytes, 1))); }

device::DeviceBuffer Lab::room(size_t bytes) {
  auto buffer = make(bytes);
  std::vector<std::byte> ones(std::min(bytes, kPinnedBlock), std::byte(0xff));
  for (size_t done = 0; done < bytes; done += kPinnedBlock)
    up(buffer, ones.data(), std::min(bytes - done, kPinnedBlock), done);
  return buffer;
}

void Lab::wait() {
  must(device.record(event, stream));
  must(device::await(device, event));
}

void Lab::up(const device::DeviceBuffer& to, const void* from, size_t bytes, size_t offset) {
  for (size_t done = 0; done < bytes; done += kPinnedBlock) {
    size_t n = std::min(kPinnedBlock, bytes - done);
    std::memcpy(block_.data(), static_cast<const std::byte*>(from) + done, n);
    device::Copy copy{to.data() + offset + done, block_.data(), n};
    must(device.copy(stream, device::Way::kToDevice, {&copy, 1}));
    wait();
  }
}

void Lab::down(void* to, const device::DeviceBuffer& from, size_t bytes) {
  for (size_t done = 0; done < bytes; done += kPinnedBlock) {
    size_t n = std::min(kPinnedBlock, bytes - done);
    device::Copy copy{block_.data(), from.data() + done, n};
    must(device.copy(stream, device::Way::kToHost, {&copy, 1}));
    wait();
    std::memcpy(static_cast<std::byte*>(to) + done, block_.data(), n);
  }
}

double Lab::time(const std::function<void()>& queue_once) {
  using Clock = std::chrono::steady_clock;
  const bool tiny = scale == Scale::kTiny;
  const int warm = tiny ? 1 : 3, rounds = tiny ? 1 : 5, calls = tiny ? 2 : 50;
  for (int i = 0; i < warm; ++i) queue_once();
  wait();
  double best = 1e9;
  for (int round = 0; round < rounds; ++round) {
    auto began = Clock::now();
    for (int i = 0; i < calls; ++i) queue_once();
    wait();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - began).count() / calls);
  }
  return best;
}

double Lab::copy_peak() {
  const size_t bytes = scale == Scale::kTiny ? 1 << 16 : 1 << 30;
  auto from = room(bytes), to = room(bytes);
  device::Copy one{to.data(), from.data(), bytes};
  return 2 * double(bytes) / time([&] { must(device.copy(stream, device::Way::kOnDevice, {&one, 1})); });
}

bool Lab::is_hopper() const {
  const auto& info = device.info();
  return info.index < 0 || (info.major == 9 && info.minor == 0);
}

void Lab::ran(llm::cuda::Code code, const char* what) {
  if (code != 0) std::fprintf(stderr, "%s: %s\n", what, words_(code).c_str());
  base::check(code == 0, "a kernel can be launched");
}

void Lab::check(const std::string& name, double error, double allowed) {
  results.push_back({name, error <= allowed, error, "error", allowed});
}
void Lab::bench(const std::string& name, double value, const std::string& unit, double limit) {
  results.push_back({name, true, value, unit, limit});
}

int Lab::finish(const std::string& json_file) const {
  char date[32];
  std::time_t now = std::time(nullptr);
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  nlohmann::json out{
      {"device", device.info().name}, {"date", date}, {"seed", seed_}, {"results", nlohmann::json::array()}};
  int bad = 0;
  std::printf("%s, %s, seed %u\n%-44s %12s %-8s %12s\n", device.info().name.c_str(), date, seed_, "what", "value", "",
              "limit");
  for (const auto& r : results) {
    bad += !r.good;
    std::printf("%-44s %12.5g %-8s %12.5g%s\n", r.name.c_str(), r.value, r.unit.c_str(), r.limit,
                r.good ? "" : "   WRONG");
    out["results"].push_back(
        {{"name", r.name}, {"good", r.good}, {"value", r.value}, {"unit", r.unit}, {"limit", r.limit}});
  }
  std::ofstream(json_file) << out.dump(2) << '\n';
  std::printf("%zu passed, %d failed\n", results.size() - size_t(bad), bad);
  return bad ? 1 : 0;
}

}  // namespace weir::gpu
