#include "post_processor.h"

#include <algorithm>

namespace tokenizers {

namespace {

// The lengths of two texts once they are cut, as the crate `tokenizers` cuts "longest_first" (utils/truncation.rs).
struct Lengths {
  size_t first, second;
};

Lengths longest_first(size_t n, size_t m, size_t most) {
  if (n <= most && m <= most - n) return {n, m};
  const size_t shorter = std::min(n, m);
  size_t low = shorter, high = shorter > most ? shorter : std::max(shorter, most - shorter);
  if (shorter > most || low + high > most) low = most / 2, high = low + most % 2;
  return n <= m ? Lengths{low, high} : Lengths{high, low};
}

}  // namespace

Pair join_pair(const PairTemplate& around, std::span<const uint32_t> first, std::span<const uint32_t> second,
               size_t most) {
  size_t markers = 0;
  for (const PairPart& part : around) markers += part.ids.size();
  const Lengths kept = longest_first(first.size(), second.size(), most > markers ? most - markers : 0);
  first = first.first(kept.first), second = second.first(kept.second);
  Pair out;
  out.ids.reserve(first.size() + second.size() + markers);
  out.types.reserve(first.size() + second.size() + markers);
  auto add = [&](std::span<const uint32_t> ids, uint32_t type) {
    out.ids.insert(out.ids.end(), ids.begin(), ids.end());
    out.types.insert(out.types.end(), ids.size(), type);
  };
  if (around.empty()) add(first, 0), add(second, 1);
  for (const PairPart& part : around) {
    if (part.what == PairPart::What::kIds)
      add(part.ids, part.type);
    else
      add(part.what == PairPart::What::kFirst ? first : second, part.type);
  }
  return out;
}

}  // namespace tokenizers
