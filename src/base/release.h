// Gives the memory of a text or a list back. Assigning an empty one does not: libstdc++ then keeps the capacity of the
// old one.
#pragma once

#include <string>
#include <vector>

namespace weir::base {

inline void release(std::string& text) { std::string().swap(text); }
template <class T>
void release(std::vector<T>& list) {
  std::vector<T>().swap(list);
}

}  // namespace weir::base
