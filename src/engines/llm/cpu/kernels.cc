#include "engines/llm/cpu/kernels.h"

namespace weir::llm {

extern const Kernels kPortable;
#ifdef __x86_64__
extern const Kernels kAvx2, kAvx512, kAvx512Bf16;
#endif

namespace {

// The best first.
const Kernels* find(std::string_view name) {
#ifdef __x86_64__
  bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  bool bf16 = avx512 && __builtin_cpu_supports("avx512bf16");
  if (bf16 && (name.empty() || name == kAvx512Bf16.name)) return &kAvx512Bf16;
  if (avx512 && (name.empty() || name == kAvx512.name)) return &kAvx512;
  if (avx2 && (name.empty() || name == kAvx2.name)) return &kAvx2;
#endif
  return name.empty() || name == kPortable.name ? &kPortable : nullptr;
}

}  // namespace

const Kernels& kernels() {
  static const Kernels* const best = find({});
  return *best;
}

const Kernels* kernels(std::string_view name) { return find(name); }

}  // namespace weir::llm
