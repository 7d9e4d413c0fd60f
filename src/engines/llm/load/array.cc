#include "engines/llm/load/array.h"

#include <algorithm>
#include <cstring>

#include "engines/llm/load/gguf_blocks.h"
#include "msg/half.h"

namespace weir::llm {
namespace {

void read_blocks(const Array& array, uint64_t from, uint64_t n, float* out) {
  const BlockFormat format = block_format(array.dtype);
  Block block;
  while (n > 0) {
    const uint64_t skip = from % format.numbers, count = std::min(n, format.numbers - skip);
    decode(array.dtype, array.data.data() + from / format.numbers * format.bytes, block);
    for (uint64_t i = skip; i < skip + count; ++i)
      *out++ = block.scales[i / format.group] * float(block.levels[i]) + block.offsets[i / format.group];
    from += count, n -= count;
  }
}

// As they lie in the file.
void read_in_order(const Array& array, uint64_t from, uint64_t n, float* out) {
  if (in_blocks(array.dtype)) return read_blocks(array, from, n, out);
  const std::byte* data = array.data.data();
  if (array.dtype == Stored::kF32) {
    std::memcpy(out, data + from * 4, n * 4);
    return;
  }
  for (uint64_t i = 0; i < n; ++i) {
    uint16_t half;  // arrays need not be aligned
    std::memcpy(&half, data + (from + i) * 2, 2);
    out[i] = array.dtype == Stored::kBf16 ? msg::bf16_to_float(half) : msg::fp16_to_float(half);
  }
}

}  // namespace

uint64_t Array::elements() const {
  uint64_t n = 1;
  for (uint64_t d : shape) n *= d;  // whoever made the array has seen that it does not overflow
  return n;
}

void read_floats(const Array& array, uint64_t from, uint64_t n, float* out) {
  if (n == 0) return;  // of nothing there may be no address
  if (array.swapped) {
    const uint64_t rows = array.shape[0], columns = array.shape[1];
    for (uint64_t i = from; i < from + n; ++i) read_in_order(array, i % columns * rows + i / columns, 1, out++);
    return;
  }
  if (array.head_rows == 0) return read_in_order(array, from, n, out);
  const uint64_t row = array.elements() / array.shape[0];
  while (n > 0) {
    const uint64_t skip = from % row, count = std::min(n, row - skip);
    read_in_order(array, array.row_in_file(from / row) * row + skip, count, out);
    from += count, n -= count, out += count;
  }
}

}  // namespace weir::llm
