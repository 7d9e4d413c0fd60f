#include "engines/forward/prefix.h"

#include <algorithm>

#include "base/fnv.h"

namespace weir::forward {

uint64_t prefix_hash(const msg::Generation& generation, uint64_t sequence) {
  base::Fnv hash;
  hash.add(sequence);
  if (sequence == 0) {
    if (generation.length() < kPrefixTokens) return 0;
    const size_t held = std::min(generation.history.size(), kPrefixTokens);
    for (size_t i = 0; i < held; ++i) hash.add(generation.history[i]);
    for (size_t i = 0; i < kPrefixTokens - held; ++i) hash.add(generation.append[i]);
  }
  return std::max<uint64_t>(hash.value(), 1);
}

// The finalizer of splitmix64.
uint64_t rendezvous(uint64_t prefix, uint64_t origin) {
  uint64_t x = prefix ^ (origin * 0x9e3779b97f4a7c15);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace weir::forward
