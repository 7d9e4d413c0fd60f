// Decisions on the host before anything is launched: pure functions of shapes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engines/llm/cuda/kernels.h"
#include "generation/engine.h"

namespace weir::llm::cuda {

// Where the pieces of one buffer begin: as the widest loads of the kernels want it.
inline constexpr size_t kAlign = 256;
constexpr size_t aligned(size_t n, size_t align = kAlign) { return (n + align - 1) / align * align; }

// A CUDA graph is captured per batch size; a batch runs in the smallest that holds it. 1, 2, 4, 8, then by halves of a
// doubling (12, 16, 24, …), so that at most a third of a graph's rows is idle; the last is `most` itself.
std::vector<uint32_t> graph_buckets(uint32_t most);
// The bucket for `rows`; 0 when no bucket holds them.
uint32_t bucket_for(std::span<const uint32_t> buckets, uint32_t rows);

// The sizes of prompts, up to `most` tokens, that make the library choose all of its algorithms (matmul.h): one for
// each of its buckets, ascending.
std::vector<uint32_t> prompt_sizes(uint32_t most);

// Parts of a decode attention that a sequence of `length` positions has.
uint32_t parts_of(uint32_t length);
// The parts that a graph is captured with: of the longest sequence of a batch, up to the next power of four, so that
// few graphs do; at most those of `max_length`. Blocks beyond a row's own parts end at once.
uint32_t captured_parts(uint32_t longest, uint32_t max_length);
// All that it says of sequences up to `longest`, ascending.
std::vector<uint32_t> part_counts(uint32_t longest, uint32_t max_length);

// A pack of texts that is small enough for its launches to take longer than its work runs as a graph: filled up with
// idle tokens and tiles to a size that few graphs have.
struct PackBucket {
  uint32_t tokens = 0, tiles = 0;  // tokens 0: it goes as it is
  uint64_t key() const { return uint64_t(tokens) << 32 | tiles; }
};
inline constexpr uint32_t kGraphTokens = 256;
// `most`: tokens that there is room for, of which a text takes whole sixteens (EncoderLimits).
PackBucket pack_bucket(uint32_t tokens, uint32_t tiles, uint32_t most);
// All that it says, those with fewer tokens first.
std::vector<PackBucket> pack_buckets(uint32_t most);

// Floats and bytes that DecodeAttention's parts take: part_out, part_max and part_sum together, in this order.
struct PartMemory {
  size_t out = 0, max = 0, sum = 0, bytes = 0;  // offsets in bytes, 256-byte aligned
};
PartMemory part_memory(uint32_t rows, uint32_t heads, uint32_t dim, uint32_t parts);

// The kernels on CUDA know these heads; those on the host know all.
bool has_attention(uint32_t heads, uint32_t kv_heads, uint32_t dim);

// A step in the order in which the device takes its tokens: rows of one token first (decode attention), then the others
// (prefill attention). Reused from step to step.
struct StepPlan {
  uint32_t singles = 0;                         // rows of one token
  uint32_t longest = 0;                         // of these, in positions
  std::vector<uint32_t> place;                  // per flat token of the step: where it is below
  std::vector<uint32_t> ids, positions, slots;  // per token
  std::vector<uint32_t> lengths, starts;        // per single: positions, and where its table begins in the step's
  std::vector<Chunk> chunks;
  std::vector<Tile> tiles;  // long chunks' last tiles, which take the longest, first
};
void plan_step(const generation::TokenStep& step, StepPlan& plan);
// The tokens that go on when the last layer has its keys and values: singles, and of chunks the tokens whose logits,
// readouts or sums are wanted. They take rows 0, 1, … in the order of their places.
struct Trim {
  bool any = false;            // somebody does not go on; else rows are places, and `kept` and `tiles` are empty
  std::vector<uint32_t> row;   // per place
  std::vector<uint32_t> kept;  // per row: its place
  std::vector<Tile> tiles;     // those with a token that goes on, in the plan's order
};
void plan_trim(const generation::TokenStep& step, const StepPlan& plan, Trim& trim);
// Idle rows up to `rows` singles: they write nothing, see nothing, and nothing uses their results. The plan has no
// chunks.
void pad(StepPlan& plan, uint32_t rows);

}  // namespace weir::llm::cuda
