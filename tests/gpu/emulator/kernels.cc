// The runtime's memory of each kernel: the shared memory that it may have, whether it is loaded.
#include <map>
#include <mutex>
#include <set>

#include "cuda_runtime.h"
#include "emulator.h"

namespace emulator {

size_t& shared_limit(const void* kernel) {
  static std::map<const void*, size_t> limits;
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  return limits.try_emplace(kernel, kSharedByDefault).first->second;
}

namespace {

struct LoadedKernels {
  std::mutex mutex;
  std::set<const void*> kernels;
  uint32_t late = 0;
};
LoadedKernels& loaded_kernels() {
  static LoadedKernels all;
  return all;
}

}  // namespace

void loaded(const void* kernel) {
  std::lock_guard lock(loaded_kernels().mutex);
  loaded_kernels().kernels.insert(kernel);
}
void launched(const void* kernel) {
  auto& all = loaded_kernels();
  std::lock_guard lock(all.mutex);
  all.late += all.kernels.insert(kernel).second;
}
uint32_t late_loads() {
  std::lock_guard lock(loaded_kernels().mutex);
  return loaded_kernels().late;
}

int32_t& last_error() {
  thread_local int32_t error = 0;
  return error;
}

}  // namespace emulator
