// Floats as the shortest decimal text that reads back as the same float, nearest to it among those that are as short:
// what std::to_chars gives, about three times as fast for binary32, which most tensors are. Always with a point or an
// exponent ("1.0", "1e+30"), so that a reader with types keeps them floats.
#pragma once

#include <cstdint>

namespace weir::marshal {

inline constexpr int kFloatText = 32;  // room that any of these may need

// Finite values only. Returns the end of what was written.
char* write_text(char* to, float value);
char* write_text(char* to, double value);
char* write_text(char* to, int64_t value);
char* write_text(char* to, uint64_t value);

}  // namespace weir::marshal
