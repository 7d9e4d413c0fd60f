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
using Slot = Code (*Kernels::*)(const Launch&, const A&);

template <class A, Slot<A> slot>
Code lazily(const Launch& launch, const A& a) {
  static std::once_flag first;
  std::call_once(first, [] {
    if (loaded) return;
    std::fprintf(stderr, "stand-in: %s is loaded at its first launch\n", typeid(A).name());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  });
  return (reference::table().*slot)(launch, a);
}

template <class A, Slot<A> slot>
void delay(Kernels& kernels) {
  kernels.*slot = lazily<A, slot>;
}

Kernels made() {
  Kernels all = reference::table();
  delay<Embed, &Kernels::embed>(all), delay<AddNorm, &Kernels::add_norm>(all);
  delay<RopeStore, &Kernels::rope_store>(all), delay<SwiGlu, &Kernels::swiglu>(all);
  delay<DecodeAttention, &Kernels::decode_attention>(all), delay<Draw, &Kernels::draw>(all);
  delay<Gather, &Kernels::gather>(all), delay<Patch, &Kernels::patch>(all);
  delay<PrefillAttention, &Kernels::prefill_attention>(all), delay<Adjust, &Kernels::adjust>(all);
  delay<Logprobs, &Kernels::logprobs>(all), delay<ReadOut, &Kernels::read_out>(all), delay<Pool, &Kernels::pool>(all);
  delay<EmbedText, &Kernels::embed_text>(all), delay<LayerNorm, &Kernels::layer_norm>(all);
  delay<Gelu, &Kernels::gelu>(all);
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
