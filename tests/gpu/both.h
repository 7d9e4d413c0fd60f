// Arrays that are on the host and on the device, so that a kernel and its host version can be given the same.
#pragma once

#include <typeinfo>
#include <utility>
#include <vector>

#include "engines/llm/cuda/reference.h"
#include "samples.h"

namespace weir::gpu {

enum class Side : uint8_t { kHost, kDevice };

template <class T>
class Both {
 public:
  Both(Lab& lab, std::vector<T> data) : host(std::move(data)), there_(lab.put(host)) {}
  // For results: nothing yet on the host, NaN on the device.
  Both(Lab& lab, size_t size) : host(size), there_(lab.room(size * sizeof(T))) {}

  T* at(Side side) { return side == Side::kHost ? host.data() : Lab::in<T>(there_); }
  std::vector<T> get(Lab& lab) const { return lab.get<T>(there_, host.size()); }
  double error(Lab& lab) const { return gpu::error(get(lab), host); }

  std::vector<T> host;

 private:
  device::DeviceBuffer there_;
};

// Runs a kernel and its host version; `make` gives the same work for either side.
template <class A, class Make>
void run(Lab& lab, llm::cuda::Code (*llm::cuda::Kernels::*slot)(const llm::cuda::Launch&, const A&), Make make) {
  lab.ran((lab.kernels->*slot)(lab.launch, make(Side::kDevice)), typeid(A).name());
  (llm::cuda::reference::table().*slot)(lab.launch, make(Side::kHost));
}

}  // namespace weir::gpu
