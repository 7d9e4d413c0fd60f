#include "engines/llm/cuda/device_matrix.h"

#include <cstring>

#include "engines/llm/cuda/bf16.h"
#include "engines/llm/load/fp8.h"

namespace weir::llm::cuda {
namespace {

constexpr uint32_t kInWord = 8;
constexpr uint32_t kPlace[kInWord] = {0, 4, 1, 5, 2, 6, 3, 7};  // of each input's code among the eight of a word

// The number that a code stands for, before scale and offset.
float level(Format format, const std::byte* codes, uint32_t input) {
  if (format == Format::kInt8) return float(int8_t(codes[input]));
  if (format == Format::kFp8) return fp8_value(uint8_t(codes[input]));
  uint32_t word;
  std::memcpy(&word, codes + input / kInWord * sizeof word, sizeof word);
  return float(int(word >> 4 * kPlace[input % kInWord] & 15) - 8);
}

}  // namespace

void read_numbers(const DeviceMatrix& w, uint32_t row, uint32_t inputs, float* to) {
  if (w.format == Format::kBf16) {
    const Bf16* numbers = static_cast<const Bf16*>(w.data) + size_t(row) * inputs;
    for (uint32_t i = 0; i < inputs; ++i) to[i] = widen_bf16(numbers[i]);
    return;
  }
  const std::byte* codes = static_cast<const std::byte*>(w.data) + size_t(row) * w.pitch;
  const std::byte* scales = codes + size_t(inputs) * bits_of(w.format) / 8;
  for (uint32_t i = 0; i < inputs; ++i) {
    float of_group[2] = {0, 0};
    const size_t bytes = (w.offsets ? 2 : 1) * sizeof(float);
    std::memcpy(of_group, scales + i / w.group * bytes, bytes);
    to[i] = level(w.format, codes, i) * of_group[0] + of_group[1];
  }
}

void write_row(const DeviceMatrix& how, uint32_t inputs, const RowCodes& from, std::byte* to) {
  std::memset(to, 0, how.pitch);
  if (how.format == Format::kInt4) {
    for (uint32_t i = 0; i < inputs; i += kInWord) {
      uint32_t word = 0;
      for (uint32_t j = 0; j < kInWord && i + j < inputs; ++j) word |= (from.codes[i + j] & 15u) << 4 * kPlace[j];
      std::memcpy(to + i / kInWord * sizeof word, &word, sizeof word);
    }
  } else {
    std::memcpy(to, from.codes, inputs);
  }
  std::byte* scales = to + size_t(inputs) * bits_of(how.format) / 8;
  const size_t bytes = (how.offsets ? 2 : 1) * sizeof(float);
  for (uint32_t g = 0; g < groups_of(inputs, how.group); ++g) {
    const float less = how.format == Format::kInt4 ? float(8 - int(from.zeros[g])) * from.scales[g] : 0;
    const float of_group[2] = {from.scales[g], from.offsets[g] + less};
    std::memcpy(scales + g * bytes, of_group, bytes);
  }
}

}  // namespace weir::llm::cuda
