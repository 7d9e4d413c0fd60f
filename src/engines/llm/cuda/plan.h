// What is decided on the host before anything is launched: pure functions of shapes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "sched/token_engine.h"

namespace weir::llm::cuda {

// A CUDA graph is captured per batch size; a batch runs in the smallest that holds it. 1, 2, 4, 8, then by halves of a
// doubling (12, 16, 24, …), so that at most a third of a graph's rows is idle; the last is `most` itself.
std::vector<uint32_t> graph_buckets(uint32_t most);
// The bucket for `rows`; 0 when no bucket holds them.
uint32_t bucket_for(std::span<const uint32_t> buckets, uint32_t rows);

// Parts of a decode attention that a sequence of `length` positions has.
uint32_t parts_of(uint32_t length);
// The parts that a graph is captured with: of the longest sequence of a batch, up to the next power of four, so that
// few graphs do; at most those of `max_length`. Blocks beyond a row's own parts end at once.
uint32_t captured_parts(uint32_t longest, uint32_t max_length);

// Floats and bytes that DecodeAttention's parts take: part_out, part_max and part_sum together, in this order.
struct PartMemory {
  size_t out = 0, max = 0, sum = 0, bytes = 0;  // offsets in bytes, 256-byte aligned
};
PartMemory part_memory(uint32_t rows, uint32_t heads, uint32_t dim, uint32_t parts);

// A step of decode rows, as the graph of a bucket takes it; what is there more than rows is idle. All arrays in one
// piece of 32-bit words, so that one copy takes them to the device.
struct DecodePack {
  uint32_t rows = 0, bucket = 0, table_width = 0, longest = 0;
  std::vector<uint32_t> words;  // ids, positions, slots, lengths: [bucket] each; tables: [bucket][table_width]

  std::span<uint32_t> ids() { return part(0); }
  std::span<uint32_t> positions() { return part(1); }
  std::span<uint32_t> slots() { return part(2); }
  std::span<uint32_t> lengths() { return part(3); }
  std::span<uint32_t> tables() { return std::span(words).subspan(size_t(4) * bucket); }

 private:
  std::span<uint32_t> part(size_t i) { return std::span(words).subspan(i * bucket, bucket); }
};

// Every row of the step has one token. `pack` is reused from step to step. Errors: INVALID_ARGUMENT for a row of more
// tokens, for more rows than the largest bucket, or for a table that is shorter than its length or longer than
// `table_width`.
base::Status pack_decode(const sched::TokenStep& step, std::span<const uint32_t> buckets, uint32_t table_width,
                         uint32_t block_size, DecodePack& pack);

}  // namespace weir::llm::cuda
