// With tests/device/fake_module.cc: a libweir_cuda.so whose devices are host memory and whose kernels are the host
// versions. What ./dev gpu does on a GPU is rehearsed with it: `cuda:0`, pinned memory and all. As a driver that loads
// lazily it delays the first launch of a kernel that nobody has loaded, and says so on stderr.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <thread>
#include <typeinfo>

#include "engines/llm/cuda/reference.h"

namespace weir::llm::cuda {
namespace {

std::atomic<bool> loaded;

template <class A>
void load_at_first_launch() {
  static std::once_flag first;
  std::call_once(first, [] {
    if (loaded) return;
    std::fprintf(stderr, "stand-in: %s is loaded at its first launch\n", typeid(A).name());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  });
}

template <class Table>
const Table& on_host();
template <>
const Kernels& on_host() {
  return reference::table();
}
template <>
const ExpertKernels& on_host() {
  return reference::table().experts;
}

template <auto slot>
struct Lazy;
template <class Table, class A, Code (*Table::*slot)(const Launch&, const A&)>
struct Lazy<slot> {
  static Code launch(const Launch& launch, const A& a) {
    load_at_first_launch<A>();
    return (on_host<Table>().*slot)(launch, a);
  }
};

template <auto... slots, class Table>
void delay(Table& table) {
  (..., (table.*slots = Lazy<slots>::launch));
}

// All but those that launch nothing: the number, load, collectives, matmul_open and matmul_close.
static_assert(sizeof(Kernels) == (5 + 21 + 4) * sizeof(void*), "a kernel that is new is delayed below, too");

Kernels made() {
  Kernels all = reference::table();
  delay<&Kernels::embed, &Kernels::add_norm, &Kernels::rope_store, &Kernels::swiglu, &Kernels::decode_attention,
        &Kernels::draw, &Kernels::gather, &Kernels::patch, &Kernels::prefill_attention, &Kernels::adjust,
        &Kernels::logprobs, &Kernels::read_out, &Kernels::pool, &Kernels::embed_text, &Kernels::layer_norm,
        &Kernels::gelu, &Kernels::norm_matmul, &Kernels::add_normed, &Kernels::norm_whole, &Kernels::soft_cap>(all);
  delay<&ExpertKernels::route, &ExpertKernels::place_pairs, &ExpertKernels::expert_matmul, &ExpertKernels::add_experts>(
      all.experts);
  all.matmul = [](const Launch& launch, Matmuls* matmuls, const Matmul& a) -> Code {
    load_at_first_launch<Matmul>();
    return reference::table().matmul(launch, matmuls, a);
  };
  all.load = [](int32_t) -> Code {
    loaded = true;
    return 0;
  };
  return all;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const Kernels* weir_cuda_llm(uint32_t abi);
extern "C" const Kernels* weir_cuda_llm(uint32_t abi) {
  static const Kernels all = made();
  return abi == kKernelsAbi ? &all : nullptr;
}

}  // namespace weir::llm::cuda
