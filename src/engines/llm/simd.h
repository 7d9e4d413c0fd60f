// Sixteen floats at a time, in whatever registers the compiler was told that the CPU has. Only for kernels_body.h:
// what is included here is compiled several times with different flags, so everything has internal linkage.
//
// bf16 weights come in pairs along the summed dimension: 16 lanes of two neighbours each, 64 bytes, and a pair of
// activations for all lanes. pair_dot() adds both products to every lane, always in the same order.
#pragma once

#include <cstdint>
#include <cstring>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace {

#if defined(__AVX512F__)

struct V16 {
  __m512 v;
};
inline V16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline void store(float* p, V16 x) { _mm512_storeu_ps(p, x.v); }
inline V16 all(float x) { return {_mm512_set1_ps(x)}; }
inline V16 add(V16 a, V16 b) { return {_mm512_add_ps(a.v, b.v)}; }
inline V16 sub(V16 a, V16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline V16 mul(V16 a, V16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline V16 div(V16 a, V16 b) { return {_mm512_div_ps(a.v, b.v)}; }
inline V16 maximum(V16 a, V16 b) { return {_mm512_max_ps(a.v, b.v)}; }
inline V16 minimum(V16 a, V16 b) { return {_mm512_min_ps(a.v, b.v)}; }
inline V16 fma(V16 a, V16 b, V16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline V16 nearest(V16 a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
// 2^n of whole n in [-126, 127].
inline V16 power_of_2(V16 n) {
  __m512i i = _mm512_add_epi32(_mm512_cvtps_epi32(n.v), _mm512_set1_epi32(127));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(i, 23))};
}
inline V16 single_dot(V16 acc, const std::byte* weights, const std::byte* x) {
  return {_mm512_fmadd_ps(_mm512_loadu_ps(reinterpret_cast<const float*>(weights)),
                          _mm512_set1_ps(*reinterpret_cast<const float*>(x)), acc.v)};
}
inline __m512i broadcast(const std::byte* x) { return _mm512_set1_epi32(*reinterpret_cast<const int32_t*>(x)); }

#if defined(__AVX512BF16__)
inline V16 pair_dot(V16 acc, const std::byte* weights, const std::byte* x) {
  return {_mm512_dpbf16_ps(acc.v, (__m512bh)(_mm512_loadu_si512(weights)), (__m512bh)(broadcast(x)))};
}
inline void store_bf16(uint16_t* p, V16 x) {
  __m256bh h = _mm512_cvtneps_pbh(x.v);
  std::memcpy(p, &h, 32);
}
#else
inline V16 pair_dot(V16 acc, const std::byte* weights, const std::byte* x) {
  __m512i w = _mm512_loadu_si512(weights), y = broadcast(x);
  const __m512i high = _mm512_set1_epi32(int32_t(0xffff0000u));
  __m512 sum = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(w, 16)),
                               _mm512_castsi512_ps(_mm512_slli_epi32(y, 16)), acc.v);
  return {_mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_si512(w, high)),
                          _mm512_castsi512_ps(_mm512_and_si512(y, high)), sum)};
}
inline void store_bf16(uint16_t* p, V16 x) {
  __m512i i = _mm512_castps_si512(x.v);
  __m512i odd = _mm512_and_si512(_mm512_srli_epi32(i, 16), _mm512_set1_epi32(1));
  i = _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(i, odd), _mm512_set1_epi32(0x7fff)), 16);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(i));
}
#endif
inline V16 load_bf16(const uint16_t* p) {
  __m256i h = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16))};
}

#elif defined(__AVX2__)

struct V16 {
  __m256 a, b;
};
inline V16 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void store(float* p, V16 x) { _mm256_storeu_ps(p, x.a), _mm256_storeu_ps(p + 8, x.b); }
inline V16 all(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline V16 add(V16 x, V16 y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
inline V16 sub(V16 x, V16 y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
inline V16 mul(V16 x, V16 y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
inline V16 div(V16 x, V16 y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
inline V16 maximum(V16 x, V16 y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
inline V16 minimum(V16 x, V16 y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
inline V16 fma(V16 x, V16 y, V16 z) { return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }
inline V16 nearest(V16 x) {
  constexpr int kMode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(x.a, kMode), _mm256_round_ps(x.b, kMode)};
}
inline __m256 power_of_2(__m256 n) {
  __m256i i = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return _mm256_castsi256_ps(_mm256_slli_epi32(i, 23));
}
inline V16 power_of_2(V16 n) { return {power_of_2(n.a), power_of_2(n.b)}; }
inline V16 single_dot(V16 acc, const std::byte* weights, const std::byte* x) {
  auto* w = reinterpret_cast<const float*>(weights);
  return fma(load(w), all(*reinterpret_cast<const float*>(x)), acc);
}
inline __m256 pair_dot(__m256 acc, const std::byte* weights, __m256i y) {
  __m256i w = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights));
  const __m256i high = _mm256_set1_epi32(int32_t(0xffff0000u));
  acc = _mm256_fmadd_ps(_mm256_castsi256_ps(_mm256_slli_epi32(w, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(y, 16)),
                        acc);
  return _mm256_fmadd_ps(_mm256_castsi256_ps(_mm256_and_si256(w, high)), _mm256_castsi256_ps(_mm256_and_si256(y, high)),
                         acc);
}
inline V16 pair_dot(V16 acc, const std::byte* weights, const std::byte* x) {
  __m256i y = _mm256_set1_epi32(*reinterpret_cast<const int32_t*>(x));
  return {pair_dot(acc.a, weights, y), pair_dot(acc.b, weights + 32, y)};
}
inline __m128i to_bf16(__m256 x) {
  __m256i i = _mm256_castps_si256(x);
  __m256i odd = _mm256_and_si256(_mm256_srli_epi32(i, 16), _mm256_set1_epi32(1));
  i = _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(i, odd), _mm256_set1_epi32(0x7fff)), 16);
  return _mm_packus_epi32(_mm256_castsi256_si128(i), _mm256_extracti128_si256(i, 1));
}
inline void store_bf16(uint16_t* p, V16 x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), to_bf16(x.a));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), to_bf16(x.b));
}
inline __m256 from_bf16(const uint16_t* p) {
  __m128i h = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}
inline V16 load_bf16(const uint16_t* p) { return {from_bf16(p), from_bf16(p + 8)}; }

#else  // any CPU; the compiler makes what it can of the loops

struct V16 {
  float v[16];
};
template <class F>
inline V16 each(F&& f) {
  V16 out;
  for (int i = 0; i < 16; ++i) out.v[i] = f(i);
  return out;
}
inline float bits(uint32_t x) {
  float f;
  std::memcpy(&f, &x, 4);
  return f;
}
inline V16 load(const float* p) {
  return each([&](int i) { return p[i]; });
}
inline void store(float* p, const V16& x) { std::memcpy(p, x.v, 64); }
inline V16 all(float x) {
  return each([&](int) { return x; });
}
inline V16 add(const V16& a, const V16& b) {
  return each([&](int i) { return a.v[i] + b.v[i]; });
}
inline V16 sub(const V16& a, const V16& b) {
  return each([&](int i) { return a.v[i] - b.v[i]; });
}
inline V16 mul(const V16& a, const V16& b) {
  return each([&](int i) { return a.v[i] * b.v[i]; });
}
inline V16 div(const V16& a, const V16& b) {
  return each([&](int i) { return a.v[i] / b.v[i]; });
}
inline V16 maximum(const V16& a, const V16& b) {
  return each([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
inline V16 minimum(const V16& a, const V16& b) {
  return each([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
inline V16 fma(const V16& a, const V16& b, const V16& c) {
  return each([&](int i) { return a.v[i] * b.v[i] + c.v[i]; });
}
inline V16 nearest(const V16& a) {
  return each([&](int i) { return float(int32_t(a.v[i] + (a.v[i] < 0 ? -0.5f : 0.5f))); });
}
inline V16 power_of_2(const V16& n) {
  return each([&](int i) { return bits(uint32_t(int32_t(n.v[i]) + 127) << 23); });
}
inline V16 single_dot(const V16& acc, const std::byte* weights, const std::byte* x) {
  return fma(load(reinterpret_cast<const float*>(weights)), all(*reinterpret_cast<const float*>(x)), acc);
}
inline V16 pair_dot(const V16& acc, const std::byte* weights, const std::byte* x) {
  uint32_t w[16], y;
  std::memcpy(w, weights, 64), std::memcpy(&y, x, 4);
  float low = bits(y << 16), high = bits(y & 0xffff0000u);
  return each([&](int i) { return acc.v[i] + bits(w[i] << 16) * low + bits(w[i] & 0xffff0000u) * high; });
}
inline void store_bf16(uint16_t* p, const V16& x) {
  for (int i = 0; i < 16; ++i) {
    uint32_t u;
    std::memcpy(&u, &x.v[i], 4);
    p[i] = uint16_t((u + ((u >> 16) & 1) + 0x7fff) >> 16);
  }
}
inline V16 load_bf16(const uint16_t* p) {
  return each([&](int i) { return bits(uint32_t(p[i]) << 16); });
}

#endif

// Always in the same order, whatever the registers.
inline float sum_of(V16 x) {
  float f[16];
  store(f, x);
  for (int n = 8; n > 0; n /= 2)
    for (int i = 0; i < n; ++i) f[i] += f[i + n];
  return f[0];
}
inline float max_of(V16 x) {
  float f[16];
  store(f, x);
  for (int i = 1; i < 16; ++i) f[0] = f[i] > f[0] ? f[i] : f[0];
  return f[0];
}

// e^x to about 2 units in the last place; 0 below -87. The polynomial of the Cephes library's expf.
inline V16 exponential(V16 x) {
  x = maximum(minimum(x, all(88.0f)), all(-87.3f));
  V16 n = nearest(mul(x, all(1.44269504f)));
  V16 r = fma(n, all(-0.693359375f), x);
  r = fma(n, all(2.12194440e-4f), r);
  V16 p = all(1.9875691500e-4f);
  p = fma(p, r, all(1.3981999507e-3f));
  p = fma(p, r, all(8.3334519073e-3f));
  p = fma(p, r, all(4.1665795894e-2f));
  p = fma(p, r, all(1.6666665459e-1f));
  p = fma(p, r, all(5.0000001201e-1f));
  p = fma(p, mul(r, r), add(r, all(1.0f)));
  return mul(p, power_of_2(n));
}

}  // namespace
