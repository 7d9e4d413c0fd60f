// Writes floats as the shortest decimal text that reads back as the same float, as std::to_chars does, in a fifth of
// its time for numbers of few decimals. The text always has a point or an exponent ("1.0", "1e+30"), so that typed
// readers keep it a float. The digits of binary32 come from Dragonbox (J. Jeon, libdragonbox).
#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::marshal {

inline constexpr int kFloatText = 32;  // room that any of these may need

// Writes the `n` floats at `data`, which need not be aligned, up to the first that is not finite, each followed by
// `behind`. `to` has room for kFloatText + 1 characters each, and is moved behind the last. Returns how many were
// written.
size_t write_floats(char*& to, const char* data, size_t n, char behind);

#ifdef __x86_64__
// The same for processors with has_avx2() (avx2.h). It stops at the first magnitude outside of 1e-5 to 2^23, too.
size_t write_floats_avx2(char*& to, const char* data, size_t n, char behind);
#endif

// Finite values only. Returns the end of what was written.
char* write_text(char* to, float value);
char* write_text(char* to, double value);
char* write_text(char* to, int64_t value);
char* write_text(char* to, uint64_t value);

}  // namespace weir::marshal
