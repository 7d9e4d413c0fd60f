// Array: a named array of a checkpoint as its file holds it, and its numbers as floats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace weir::llm {

enum class Stored : uint8_t {
  kF32,
  kF16,
  kBf16,
  kFp8,    // E4M3: no infinities
  kInt8,   //
  kInt32,  // mostly numbers of fewer bits, several in each
  kUint8,  //
  kOther,
  // Blocks of numbers that share scales (gguf_blocks.h).
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2K,
  kQ3K,
  kQ4K,
  kQ5K,
  kQ6K,
  kIq4Nl,
  kIq4Xs,
  kMxfp4,
};
inline bool in_blocks(Stored stored) { return stored >= Stored::kQ4_0; }
// Whether read_floats() reads them.
inline bool is_float(Stored stored) { return stored <= Stored::kBf16 || in_blocks(stored); }

struct Array {
  Stored dtype = Stored::kOther;
  std::vector<uint64_t> shape;
  std::span<const std::byte> data{};  // in the file
  // Rows of a head of which the file has those of the two halves in turn: 0, n / 2, 1, n / 2 + 1, ... 0: in order.
  uint32_t head_rows = 0;
  bool swapped = false;  // of two sizes, the file has [shape[1]][shape[0]]

  uint64_t elements() const;
  // Where the file has that row.
  uint64_t row_in_file(uint64_t row) const {
    if (head_rows == 0) return row;
    const uint64_t in_head = row % head_rows, half = head_rows / 2;
    return row - in_head + in_head % half * 2 + in_head / half;
  }
};

using Arrays = std::map<std::string, Array, std::less<>>;

// Elements [from, from + n) as floats, of an array that is_float().
void read_floats(const Array& array, uint64_t from, uint64_t n, float* out);

}  // namespace weir::llm
