// Gives the memory of a text back. Assigning an empty text does not: libstdc++ then keeps the capacity of the old one.
#pragma once

#include <string>

namespace weir::base {

inline void release(std::string& text) { std::string().swap(text); }

}  // namespace weir::base
