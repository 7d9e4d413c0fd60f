// Floats as the shortest decimal text that reads back as the same float, nearest to it among those that are as short:
// what std::to_chars gives, in a fifth of its time for numbers of few decimals. Always with a point or an exponent
// ("1.0", "1e+30"), so that a reader with types keeps them floats. The digits of binary32 are Dragonbox's (J. Jeon,
// libdragonbox), the place of the point is decided here.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::marshal {

inline constexpr int kFloatText = 32;  // room that any of these may need

// As many of the `n` floats at `data`, which need not be aligned, as are finite, each with `behind` behind it, at `to`,
// which has room for kFloatText + 1 each. Returns how many; `to` is moved on.
size_t write_run(char*& to, const char* data, size_t n, char behind);

#ifdef __x86_64__
// The same where has_avx2() (avx2.h), of those whose magnitudes are from 1e-5 to 2^23.
size_t write_run_avx2(char*& to, const char* data, size_t n, char behind);
#endif

// Finite values only. Returns the end of what was written.
char* write_text(char* to, float value);
char* write_text(char* to, double value);
char* write_text(char* to, int64_t value);
char* write_text(char* to, uint64_t value);

}  // namespace weir::marshal
