// Helpers for checks and benches of kernels: the device, buffers with contents, waiting, the list of results. The
// device is a real GPU, or the emulator's.
#pragma once

#include <chrono>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "device/await.h"
#include "device/device.h"
#include "engines/llm/cuda/kernels.h"

namespace weir::gpu {

struct Result {
  std::string name;
  bool good = true;
  double value = 0;  // of a bench; of a check the largest error
  std::string unit;
  double limit = 0;  // what could be had at most, in the same unit; 0 = unknown
};

class Lab {
 public:
  using Words = std::string (*)(llm::cuda::Code);
  // Kernels are tried on small shapes where they are slow. Tiny: benches that only have to run.
  enum class Scale : uint8_t { kTiny, kSmall, kFull };

  Lab(device::Device& device, const llm::cuda::Kernels* kernels, Words words, Scale scale);

  template <class T>
  device::DeviceBuffer put(const std::vector<T>& data) {
    auto buffer = make(data.size() * sizeof(T));
    up(buffer, data.data(), data.size() * sizeof(T));
    return buffer;
  }
  template <class T>
  std::vector<T> get(const device::DeviceBuffer& buffer, size_t count) {
    std::vector<T> out(count);
    down(out.data(), buffer, count * sizeof(T));
    return out;
  }
  // All bits set: NaN until it is written.
  device::DeviceBuffer room(size_t bytes);
  template <class T>
  static T* in(const device::DeviceBuffer& buffer) {
    return reinterpret_cast<T*>(buffer.data());
  }
  void wait();
  // Seconds of one call, from many in a row.
  double time(const std::function<void()>& queue_once);
  // Bytes per second that a copy on the device reads and writes: the limit of what memory bounds.
  double copy_peak();
  // Whether kernels for Hopper can be launched. The emulator is one, too; host versions do not care.
  bool is_hopper() const;
  // A launch must succeed.
  void ran(llm::cuda::Code code, const char* what);

  void check(const std::string& name, double error, double allowed);
  void bench(const std::string& name, double value, const std::string& unit, double limit = 0);
  int finish(const std::string& json_file) const;
  // The same in the device's next life, without results.
  Lab after_restart() const { return Lab(device, kernels, words_, scale); }

  device::Device& device;
  const llm::cuda::Kernels* kernels;
  const Scale scale;
  device::Stream stream;
  device::Event event;
  llm::cuda::Launch launch;
  std::vector<Result> results;
  std::mt19937 random;  // WEIR_SEED, or another one every time; finish() says which

 private:
  device::DeviceBuffer make(size_t bytes);
  void up(const device::DeviceBuffer& to, const void* from, size_t bytes, size_t offset = 0);
  void down(void* to, const device::DeviceBuffer& from, size_t bytes);

  const Words words_;
  const uint32_t seed_;
  device::PinnedBlock block_;
};

void check_rows(Lab& lab);
void check_attention(Lab& lab);
void check_kv_codes(Lab& lab);  // attention over keys and values that are kept as codes
void check_draws(Lab& lab);
void check_encoder(Lab& lab);
void check_products(Lab& lab);
void check_experts(Lab& lab);
void bench_copies(Lab& lab);
void bench_kernels(Lab& lab);

}  // namespace weir::gpu
