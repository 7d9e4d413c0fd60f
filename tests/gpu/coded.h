// Weights in codes (device_matrix.h) of random numbers, on both sides.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "both.h"
#include "engines/llm/cuda/device_matrix.h"
#include "samples.h"

namespace weir::gpu {

using llm::cuda::DeviceMatrix;
using llm::cuda::Format;

// A weight in codes: a row's come from everything that its format has.
struct CodedCase {
  const char* name;
  Format format;
  uint32_t group;  // 0: all inputs
  bool offsets;
};
inline constexpr CodedCase kCoded[] = {
    {"int8", Format::kInt8, 128, false},       {"int8 of a row", Format::kInt8, 0, false},
    {"int8 offsets", Format::kInt8, 32, true}, {"fp8", Format::kFp8, 128, false},
    {"int4", Format::kInt4, 32, false},        {"int4 offsets", Format::kInt4, 64, true}};

struct CodedWeight {
  CodedWeight(Lab& lab, const CodedCase& of, uint32_t outputs, uint32_t inputs, float size)
      : how(matrix_of(of, inputs)), data(lab, codes_of(lab, how, outputs, inputs, size)) {}
  DeviceMatrix at(Side side) {
    how.data = data.at(side);
    return how;
  }

  static DeviceMatrix matrix_of(const CodedCase& of, uint32_t inputs) {
    DeviceMatrix m;
    m.format = of.format, m.group = of.group ? std::min(of.group, inputs) : inputs, m.offsets = of.offsets ? 1 : 0;
    m.pitch = uint32_t(llm::cuda::row_bytes(m.format, inputs, m.group, of.offsets));
    return m;
  }
  // `size`: about that of the numbers.
  static std::vector<uint8_t> codes_of(Lab& lab, const DeviceMatrix& how, uint32_t outputs, uint32_t inputs,
                                       float size) {
    const float step = how.format == Format::kInt4 ? size / 4 : size / 64;
    std::vector<uint8_t> out(size_t(outputs) * how.pitch), codes(inputs), zeros(inputs);
    for (uint32_t o = 0; o < outputs; ++o) {
      const auto scales = some_floats(lab, inputs, step);
      auto offsets = some_floats(lab, inputs, how.offsets ? size : 0);
      for (uint32_t i = 0; i < inputs; ++i) {
        codes[i] = uint8_t(lab.random() % 256);
        if (how.format == Format::kFp8 && (codes[i] & 0x7f) == 0x7f) codes[i] = 0x3f;  // no number
        if (how.format == Format::kInt4) codes[i] &= 15;
        zeros[i] = uint8_t(how.offsets ? lab.random() % 16 : 8);
      }
      llm::cuda::write_row(how, inputs, {codes.data(), scales.data(), zeros.data(), offsets.data()},
                           reinterpret_cast<std::byte*>(&out[size_t(o) * how.pitch]));
    }
    return out;
  }

  DeviceMatrix how;
  Both<uint8_t> data;
};

}  // namespace weir::gpu
