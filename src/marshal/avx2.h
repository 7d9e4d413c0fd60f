// Functions for processors with AVX2, beside others for any processor: has_avx2() chooses at run time.
//
// In a loop whose next step needs a flag, the flag is computed, not compared (is_minus, is_zero): a comparison sets
// eight bits of a register, and waits for whatever set the others, which may be the slow end of the step before.
// Reading floats took 2.5 times as long.
#pragma once

#ifdef __x86_64__

#define WEIR_AVX2 [[gnu::target("avx2,bmi,bmi2,lzcnt")]]
#define WEIR_AVX2_INLINE [[gnu::target("avx2,bmi,bmi2,lzcnt"), gnu::always_inline]] inline

namespace weir::marshal {

// Whichever processor has these has lzcnt.
inline bool has_avx2() {
  static const bool has =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  return has;
}

}  // namespace weir::marshal

#endif
