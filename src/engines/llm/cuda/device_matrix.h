// DeviceMatrix: the weights of a product as they lie in the memory of a device: bfloat16, or codes of fewer bits that
// neighbours along the inputs share a scale for, and perhaps an offset. A number is its code times the scale, plus the
// offset; products expand them where they multiply, and want x and the weight 16-byte aligned then, and inputs that are
// a multiple of kCodedTogether. Standard library only.
//
//   kBf16   [outputs][inputs] of bfloat16
//   others  rows of row_bytes(): the codes of the inputs, then for each group of `group` inputs a float32 scale, behind
//           which its offset is where there are offsets, then nothing up to a multiple of kRowAlign
//           kInt8   -128 to 127, a byte each
//           kFp8    E4M3, a byte each
//           kInt4   -8 to 7, stored 8 more; eight inputs in a word, of which the lower half has 0 2 4 6 and the upper
//                   half 1 3 5 7, the first in the lowest bits
#pragma once

#include <cstddef>
#include <cstdint>

#include "engines/llm/cuda/kernel_types.h"

namespace weir::llm::cuda {

enum class Format : uint32_t { kBf16, kInt8, kFp8, kInt4 };

inline constexpr uint32_t kCodedTogether = 32;  // inputs: rows and groups of codes have whole ones of these
inline constexpr size_t kRowAlign = 32;         // bytes, as the device's memory is read

constexpr uint32_t bits_of(Format format) { return format == Format::kBf16 ? 16 : format == Format::kInt4 ? 4 : 8; }
constexpr uint32_t groups_of(uint32_t inputs, uint32_t group) { return (inputs + group - 1) / group; }

struct DeviceMatrix {
  const void* data = nullptr;  // null: there is none
  uint32_t pitch = 0;          // bytes from one row of codes to the next
  uint32_t group = 0;          // inputs that share a scale: a multiple of kCodedTogether, or all
  Format format = Format::kBf16;
  uint32_t offsets = 0;  // 1: there are some

  constexpr DeviceMatrix() = default;
  constexpr DeviceMatrix(const Bf16* whole) : data(whole) {}  // NOLINT: one that is not coded
  explicit operator bool() const { return data != nullptr; }
};

// The bytes of a row of codes.
constexpr size_t row_bytes(Format format, uint32_t inputs, uint32_t group, bool offsets) {
  const size_t codes = size_t(inputs) * bits_of(format) / 8;
  const size_t scales = size_t(groups_of(inputs, group)) * (offsets ? 2 : 1) * sizeof(float);
  return (codes + scales + kRowAlign - 1) / kRowAlign * kRowAlign;
}

// Whether codes lie as the products want it, which refuse others.
constexpr bool is_coded_right(const DeviceMatrix& w, uint32_t inputs) {
  return inputs % kCodedTogether == 0 && w.group > 0 && (w.group % kCodedTogether == 0 || w.group == inputs) &&
         w.pitch % kRowAlign == 0 && w.pitch >= row_bytes(w.format, inputs, w.group, w.offsets != 0);
}

// On the host, where `data` is there, too: the numbers of a row; what a row becomes of its codes. Codes are 0 to 15
// with kInt4, of which `zeros` are taken; zeros and offsets that `how` cannot hold are 8 and 0.
struct RowCodes {
  const uint8_t* codes;  // of each input
  const float* scales;   // of each group
  const uint8_t* zeros;
  const float* offsets;
};
void read_numbers(const DeviceMatrix& weight, uint32_t row, uint32_t inputs, float* to);
void write_row(const DeviceMatrix& how, uint32_t inputs, const RowCodes& from, std::byte* to);

}  // namespace weir::llm::cuda
