// Weights in codes (device_matrix.h), as kernels read them: eight inputs of a row at a time, which become bfloat16
// without rounding; and with kFormat kBf16 weights that are not coded.
#pragma once

#include <type_traits>

#include "engines/llm/cuda/code_pairs.cuh"
#include "engines/llm/cuda/launch.cuh"

namespace weir::llm::cuda {

template <Format kFormat>
struct EightOf;
template <>
struct EightOf<Format::kBf16> {
  using Type = uint4;
};
template <>
struct EightOf<Format::kInt8> {
  using Type = uint2;
};
template <>
struct EightOf<Format::kFp8> {
  using Type = uint2;
};
template <>
struct EightOf<Format::kInt4> {
  using Type = uint32_t;
};
template <Format kFormat>
using Eight = typename EightOf<kFormat>::Type;

// 2^23 and a byte are a float with the byte in its last bits.
__device__ inline uint32_t int8_pair(uint32_t word, uint32_t first) {
  constexpr uint32_t kMagic = 0x4b000000u;
  constexpr float kLess = 8388608.f + 128.f;
  const float low = __uint_as_float(kMagic | (word >> 8 * first & 0xff)) - kLess;
  const float high = __uint_as_float(kMagic | (word >> 8 * (first + 1) & 0xff)) - kLess;
  return __float_as_uint(low) >> 16 | (__float_as_uint(high) & 0xffff0000u);
}
__device__ inline uint4 expand_int8(uint2 codes) {
  const uint32_t first = codes.x ^ 0x80808080u, second = codes.y ^ 0x80808080u;
  return make_uint4(int8_pair(first, 0), int8_pair(first, 2), int8_pair(second, 0), int8_pair(second, 2));
}

__device__ inline uint4 expand_fp8(uint2 codes) {
  auto first = [](uint32_t w) { return fp8_pair((w & 0xffu) << 8 | (w & 0xff00u) << 16); };
  auto second = [](uint32_t w) { return fp8_pair((w >> 8 & 0xff00u) | (w & 0xff000000u)); };
  return make_uint4(first(codes.x), second(codes.x), first(codes.y), second(codes.y));
}

// 128 and four bits are a bfloat16 with these in its last bits.
__device__ inline uint4 expand_int4(uint32_t codes) {
  constexpr uint32_t kMagic = 0x43004300u, kOne = 0x3f803f80u, kLess = 0xc308c308u;  // -136
  auto pair = [&](uint32_t i) { return multiply_add_pairs((codes >> 4 * i & 0x000f000fu) | kMagic, kOne, kLess); };
  return make_uint4(pair(0), pair(1), pair(2), pair(3));
}

// The numbers that codes stand for, before scale and offset.
template <Format kFormat>
__device__ inline uint4 expand(Eight<kFormat> codes) {
  if constexpr (kFormat == Format::kBf16)
    return codes;
  else if constexpr (kFormat == Format::kInt8)
    return expand_int8(codes);
  else if constexpr (kFormat == Format::kFp8)
    return expand_fp8(codes);
  else
    return expand_int4(codes);
}

template <Format kFormat>
constexpr uint32_t kBits = kFormat == Format::kBf16   ? 16
                           : kFormat == Format::kInt4 ? 4
                                                      : 8;

// The codes of a row, and its scales (and offsets) behind them.
template <Format kFormat>
__device__ inline const unsigned char* row_of(const DeviceMatrix& w, uint32_t row, uint32_t inputs) {
  const size_t pitch = kFormat == Format::kBf16 ? size_t(inputs) * sizeof(Bf16) : w.pitch;
  return static_cast<const unsigned char*>(w.data) + size_t(row) * pitch;
}
template <Format kFormat>
__device__ inline const float* scales_of(const unsigned char* row, uint32_t inputs) {
  return reinterpret_cast<const float*>(row + size_t(inputs) * kBits<kFormat> / 8);
}

// Eight inputs of a row with what their group has.
template <Format kFormat>
struct LoadedCodes {
  Eight<kFormat> codes;
  float scale, offset;
};

// Input `i` of each row and what the next kAtOnce - 1 steps of `step` inputs take of it; what is past `inputs` is left
// as it is. Codes are read once.
template <Format kFormat, uint32_t kAtOnce, uint32_t kOutputs>
__device__ inline void load_codes(LoadedCodes<kFormat> (&to)[kAtOnce][kOutputs],
                                  const unsigned char* const (&row)[kOutputs], uint32_t i, uint32_t step,
                                  const DeviceMatrix& w, uint32_t inputs) {
#pragma unroll
  for (uint32_t s = 0; s < kAtOnce; ++s) {
    const uint32_t at = i + s * step;
    if (at >= inputs) break;
    [[maybe_unused]] const uint32_t group = kFormat == Format::kBf16 ? 0 : at / w.group << w.offsets;
#pragma unroll
    for (uint32_t o = 0; o < kOutputs; ++o) {
      LoadedCodes<kFormat>& piece = to[s][o];
      piece.codes = __ldcs(reinterpret_cast<const Eight<kFormat>*>(row[o] + size_t(at) * kBits<kFormat> / 8));
      if constexpr (kFormat != Format::kBf16) {
        const float* scales = scales_of<kFormat>(row[o], inputs) + group;
        piece.scale = __ldg(scales);
        if (w.offsets) piece.offset = __ldg(scales + 1);
      }
    }
  }
}

// Adds the products of eight inputs of a row of x to the sums of some outputs; `v`: what the pieces' codes stand for.
// The sum of these eight goes into the output's times the scale that they share.
template <Format kFormat, uint32_t kOutputs, uint32_t kInputs>
__device__ inline void add_products(float (&sum)[kOutputs], const float (&x)[kInputs],
                                    const float (&v)[kOutputs][kInputs], const LoadedCodes<kFormat> (&pieces)[kOutputs],
                                    bool offsets) {
  constexpr bool kCoded = kFormat != Format::kBf16;
  float products[kOutputs] = {}, inputs = 0;
#pragma unroll
  for (uint32_t o = 0; o < kOutputs; ++o)
#pragma unroll
    for (uint32_t j = 0; j < kInputs; ++j) {
      float& to = kCoded ? products[o] : sum[o];
      to = fmaf(x[j], v[o][j], to);
    }
  if constexpr (kCoded) {
#pragma unroll
    for (uint32_t o = 0; o < kOutputs; ++o) sum[o] = fmaf(pieces[o].scale, products[o], sum[o]);
    if (!offsets) return;
#pragma unroll
    for (uint32_t j = 0; j < kInputs; ++j) inputs += x[j];
#pragma unroll
    for (uint32_t o = 0; o < kOutputs; ++o) sum[o] = fmaf(pieces[o].offset, inputs, sum[o]);
  }
}

// On the host: make() of the format's std::integral_constant; kBadShape where nothing is coded. And of one after the
// other, until one fails.
template <class Make>
Code with_format(Format format, Make make) {
  switch (format) {
    case Format::kInt8: return make(std::integral_constant<Format, Format::kInt8>());
    case Format::kFp8: return make(std::integral_constant<Format, Format::kFp8>());
    case Format::kInt4: return make(std::integral_constant<Format, Format::kInt4>());
    case Format::kBf16: break;
  }
  return kBadShape;
}
template <class Make>
Code with_each_format(Make make) {
  Code code = 0;
  for (Format format : {Format::kInt8, Format::kFp8, Format::kInt4})
    if (code == 0) code = with_format(format, make);
  return code;
}

// Stores a product, given its sum.
__device__ inline void put_product(const Matmul& a, uint32_t row, uint32_t output, float sum) {
  const size_t at = size_t(row) * a.outputs + output;
  sum *= a.scale;
  if (a.bias) sum += a.bias[output];
  if (a.into == Matmul::Into::kBf16) {
    static_cast<Bf16*>(a.out)[at] = narrow(sum);
  } else if (a.into == Matmul::Into::kF32) {
    static_cast<float*>(a.out)[at] = sum;
  } else {
    static_cast<float*>(a.out)[at] += sum;
  }
}

}  // namespace weir::llm::cuda
