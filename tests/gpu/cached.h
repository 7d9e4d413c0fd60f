// Keys and values in blocks, for checks of attention: as bfloat16, or as codes with their scales.
#pragma once

#include "both.h"
#include "engines/llm/load/fp8.h"

namespace weir::gpu {

using llm::cuda::KvCodes;

inline std::string kept_words(KvCodes codes) {
  return codes == KvCodes::kNone ? "" : codes == KvCodes::kInt8 ? " int8" : " fp8";
}

// A number that is rounded the other way, relative to one or itself: of codes by a step of the largest, which is of
// one's size or so.
inline double one_step(KvCodes codes) {
  return codes == KvCodes::kNone ? kOneStep : codes == KvCodes::kInt8 ? 1.0 / 8 : 1.0 / 6;
}

// A cache of vectors of `dim` numbers, by slot and head.
struct Cached {
  // Only the vectors of `slots` are numbers; NaN is where nobody may look.
  Cached(Lab& lab, KvCodes kept, size_t all_slots, const std::vector<size_t>& slots, uint32_t kv_heads, uint32_t dim)
      : codes(kept),
        heads(kv_heads),
        dims(dim),
        k(lab, vectors(lab, all_slots, slots)),
        v(lab, vectors(lab, all_slots, slots)),
        scales(lab, some_scales(lab, all_slots, slots)) {}

  // A: what has a cache.
  template <class A>
  void put_into(A& a, Side side) {
    a.k_cache = k.at(side), a.v_cache = v.at(side);
    if (codes != KvCodes::kNone) a.codes = codes, a.scales = scales.at(side);
  }

  // All numbers of one side's keys (0) or values (1), zeros where there are none.
  std::vector<float> numbers(const std::vector<Bf16>& of, const std::vector<float>& times, uint32_t which) const {
    std::vector<float> out(of.size() * (codes == KvCodes::kNone ? 1 : 2));
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = number(of, times, which, i);
      if (std::isnan(out[i])) out[i] = 0;
    }
    return out;
  }
  float number(const std::vector<Bf16>& of, const std::vector<float>& times, uint32_t which, size_t i) const {
    if (codes == KvCodes::kNone) return widened(of[i]);
    const auto code = uint8_t(of[i / 2] >> i % 2 * 8);
    return times[2 * (i / dims) + which] * (codes == KvCodes::kInt8 ? float(int8_t(code)) : llm::fp8_value(code));
  }
  // The largest error of the places that are numbers; elsewhere both sides must be as they were.
  double error(Lab& lab, uint32_t which) const {
    const Both<Bf16>& cache = which == 0 ? k : v;
    return gpu::error(numbers(cache.get(lab), scales.get(lab), which), numbers(cache.host, scales.host, which));
  }

  const KvCodes codes;
  const uint32_t heads, dims;
  Both<Bf16> k, v;
  Both<float> scales;

 private:
  std::vector<Bf16> vectors(Lab& lab, size_t all_slots, const std::vector<size_t>& slots) const {
    const size_t each = size_t(heads) * dims / (codes == KvCodes::kNone ? 1 : 2);
    std::vector<Bf16> out(all_slots * each, 0xffff);
    for (size_t slot : slots) {
      auto some = codes == KvCodes::kNone ? some_bf16(lab, each) : some_codes(lab, each);
      std::copy(some.begin(), some.end(), out.begin() + ptrdiff_t(slot * each));
    }
    return out;
  }
  std::vector<Bf16> some_codes(Lab& lab, size_t pairs) const {
    const uint32_t none = codes == KvCodes::kInt8 ? 0x80 : 0x7f;  // which nobody stores
    auto code = [&] {
      const auto some = uint32_t(lab.random() % 256);
      return some == none || (codes == KvCodes::kFp8 && some == 0xff) ? 1 : some;
    };
    std::vector<Bf16> out(pairs);
    for (Bf16& two : out) two = Bf16(code() | code() << 8);
    return out;
  }
  std::vector<float> some_scales(Lab& lab, size_t all_slots, const std::vector<size_t>& slots) const {
    if (codes == KvCodes::kNone) return {0};
    std::vector<float> out(all_slots * heads * 2, NAN);
    for (size_t slot : slots)
      for (size_t i = 0; i < size_t(heads) * 2; ++i)
        out[slot * heads * 2 + i] = (0.5f + float(lab.random() % 64) / 64) / (codes == KvCodes::kInt8 ? 64 : 96);
    return out;
  }
};

}  // namespace weir::gpu
