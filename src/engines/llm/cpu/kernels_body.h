// The kernels, written once over simd.inc. Included by one source file per instruction set, which names the table; see
// kernels.h for what they promise. No header of weir that has functions here: an inline function compiled for a CPU
// that is not there must not be the one that the linker keeps.
#include <cmath>
#include <cstddef>
#include <initializer_list>

#include "engines/llm/cpu/kernels.h"
#include "engines/llm/cpu/simd.inc"

namespace weir::llm {
namespace {

// Rows of a register block beside 2 panels, and beside 4; as measured.
#if defined(__AVX512F__)
constexpr uint32_t kWideF32 = 12, kWideBf16 = 12, kNarrow = 6;
#elif defined(__AVX2__)
constexpr uint32_t kWideF32 = 3, kWideBf16 = 4, kNarrow = 1;
#else
constexpr uint32_t kWideF32 = 2, kWideBf16 = 2, kNarrow = 1;
#endif

// Steps ahead that weights are fetched where a handful of rows use them: there the CPU does not look far enough ahead
// by itself. (With fewer rows it does, with more the arithmetic takes longer than the memory.)
constexpr uint32_t kAhead = 96;

struct F32 {
  static constexpr WeightFormat kForm = WeightFormat::kF32;
  static constexpr uint32_t kWide = kWideF32;
  static V16 step(V16 acc, const std::byte* w, const std::byte* x) { return single_dot(acc, w, x); }
  static void put(std::byte* out, size_t i, V16 x) { store(reinterpret_cast<float*>(out) + i, x); }
};
struct Bf16 {
  static constexpr WeightFormat kForm = WeightFormat::kBf16;
  static constexpr uint32_t kWide = kWideBf16;
  static V16 step(V16 acc, const std::byte* w, const std::byte* x) { return pair_dot(acc, w, x); }
  static void put(std::byte* out, size_t i, V16 x) { store_bf16(reinterpret_cast<uint16_t*>(out) + i, x); }
};

// M rows against P panels in registers; `b` has `segments` pieces of the depth for each panel.
template <class N, uint32_t M, uint32_t P, class Panel>
inline void block(const std::byte* a, size_t a_stride, Panel&& panel, uint32_t segments, uint32_t depth,
                  uint32_t last_depth, float* c, size_t c_stride, Product::Onto onto) {
  V16 acc[M][P];
#pragma GCC unroll 16
  for (uint32_t m = 0; m < M; ++m)
#pragma GCC unroll 4
    for (uint32_t p = 0; p < P; ++p)
      acc[m][p] = onto == Product::Onto::kNothing ? all(0) : load(c + m * c_stride + 16 * p);
  for (uint32_t s = 0; s < segments; ++s) {
    const std::byte* b[P];
#pragma GCC unroll 4
    for (uint32_t p = 0; p < P; ++p) b[p] = panel(s, p);
    const uint32_t steps = s + 1 == segments ? last_depth : depth;
    for (uint32_t k = 0; k < steps; ++k) {
      if constexpr (M > kNarrow && M < N::kWide && P > 1)
#pragma GCC unroll 4
        for (uint32_t p = 0; p < P; ++p) __builtin_prefetch(b[p] + 64 * size_t(k + kAhead / P));
#pragma GCC unroll 16
      for (uint32_t m = 0; m < M; ++m)
#pragma GCC unroll 4
        for (uint32_t p = 0; p < P; ++p)
          acc[m][p] = N::step(acc[m][p], b[p] + 64 * size_t(k), a + m * a_stride + 4 * k);
    }
    a += 4 * size_t(depth);
  }
#pragma GCC unroll 16
  for (uint32_t m = 0; m < M; ++m)
#pragma GCC unroll 4
    for (uint32_t p = 0; p < P; ++p) store(c + m * c_stride + 16 * p, acc[m][p]);
}

// The rows that are left after the full register blocks: one block of exactly that many.
template <class N, uint32_t P, uint32_t M, class Panel>
void panels_of(const Product& d, const std::byte* a, uint32_t rows, Panel&& panel, uint32_t segments, uint32_t depth,
               uint32_t last, float* c) {
  for (; rows >= M; rows -= M, a += M * d.a_stride, c += M * d.c_stride)
    block<N, M, P>(a, d.a_stride, panel, segments, depth, last, c, d.c_stride, d.onto);
  if constexpr (M > 1)
    if (rows > 0) panels_of<N, P, M - 1>(d, a, rows, panel, segments, depth, last, c);
}

// Panels four or two at a time: few rows want many panels at once, so that enough additions are under way.
template <class N, class Panel>
void all_panels(const Product& d, Panel&& panel, uint32_t segments, uint32_t depth, uint32_t last) {
  uint32_t p = 0;
  auto from = [&](uint32_t s, uint32_t q) { return panel(s, p + q); };
  if (d.rows <= kNarrow)
    for (; p + 4 <= d.panels; p += 4)
      panels_of<N, 4, kNarrow>(d, d.a, d.rows, from, segments, depth, last, d.c + 16 * p);
  for (; p + 2 <= d.panels; p += 2)
    panels_of<N, 2, N::kWide>(d, d.a, d.rows, from, segments, depth, last, d.c + 16 * p);
  for (; p < d.panels; ++p) panels_of<N, 1, N::kWide>(d, d.a, d.rows, from, segments, depth, last, d.c + 16 * p);
}

template <class N>
void product(const Product& d) {
  all_panels<N>(
      d, [&](uint32_t, uint32_t p) { return d.b[p]; }, 1, d.depth, d.depth);
}

#include "engines/llm/cpu/kernels_attention.inc"
#include "engines/llm/cpu/kernels_codes.inc"
#include "engines/llm/cpu/kernels_rows.inc"

constexpr Kernels make_table(std::string_view name) {
  return {name,
          {product<F32>, product<Bf16>},
          {attend<F32>, attend<Bf16>},
          {nullptr, expand_int8, expand_int4, expand_fp8},
          add_scaled,
          add_offsets,
          {rms_norm<F32>, rms_norm<Bf16>},
          {layer_norm<F32>, layer_norm<Bf16>},
          {convert<F32>, convert<Bf16>},
          {swiglu<F32>, swiglu<Bf16>},
          {geglu<F32>, geglu<Bf16>},
          {geglu_tanh<F32>, geglu_tanh<Bf16>},
          {swiglu_clamped<F32>, swiglu_clamped<Bf16>},
          {gelu<F32>, gelu<Bf16>},
          {gelu_tanh<F32>, gelu_tanh<Bf16>},
          largest,
          sum_exp,
          exps,
          dot,
          soft_cap};
}

}  // namespace
}  // namespace weir::llm
