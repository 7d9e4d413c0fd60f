// The kernels of attention and of its cache, a part of the table of kernels.h: what is said there holds here.
//
// Keys and values are kept as bfloat16, or as codes (KvCodes) of a byte with a scale for each vector: one head's key,
// or value, at one position. What would be stored as bfloat16 is rounded once more, to steps of the vector's largest
// number (kInt8) or to E4M3 whose largest is that number (kFp8); a vector that is not finite has a scale that is none
// either. A code's number is exact in bfloat16, and scales go into scores and weights: attention rounds nothing else.
#pragma once

#include "engines/llm/cuda/kernel_types.h"

namespace weir::llm::cuda {

inline constexpr uint32_t kNoSlot = UINT32_MAX;  // of a row that only fills a graph's batch: writes nothing
inline constexpr uint32_t kPartition = 256;      // positions that one part of a decode attention looks at
inline constexpr uint32_t kHeadsTogether = 8;    // query heads of a key head that one block of it takes
inline constexpr uint32_t kTurnedTogether = 8;   // dimensions of a head that turn, or do not, together
inline constexpr uint32_t kQueryTile = 64;       // queries of a chunk that a prefill attention takes together

// Biases are added, heads of queries and keys normalised by themselves, each where the model has that; then queries and
// keys are turned by their position (dimension i against i + pairs; those behind 2 * pairs stay), and keys and values
// go to their slots. All in float32 until it is stored.
struct RopeStore {
  const Bf16* qkv;           // [tokens][(heads + 2 * kv_heads) * dim]: queries, keys, values
  const float* frequencies;  // [pairs]
  const uint32_t* positions;
  const uint32_t* slots;
  Bf16* q;                  // [tokens][heads][dim]
  Bf16 *k_cache, *v_cache;  // [slots][kv_heads][dim], of one layer; with `codes` a byte each
  uint32_t tokens, heads, kv_heads, dim;
  float scale;                   // of sine and cosine
  const float* bias = nullptr;   // [(heads + 2 * kv_heads) * dim], or null
  const Bf16* q_norm = nullptr;  // [dim], or null: heads are as they are
  const Bf16* k_norm = nullptr;  // [dim], null when q_norm is
  float epsilon = 0;             // of these norms
  float offset = 0;              // added to their weights
  uint32_t pairs = 0;            // dimensions that turn against others; 0: dim / 2. In attention whole kTurnedTogether
  KvCodes codes = KvCodes::kNone;
  float* scales = nullptr;  // with `codes`: [slots][kv_heads][2], the key's and the value's
};

// Blocks that share the query heads of one key head in a decode attention: each reads its keys and values.
constexpr uint32_t head_blocks(uint32_t heads, uint32_t kv_heads) {
  return (heads / kv_heads + kHeadsTogether - 1) / kHeadsTogether;
}

// Attention of one query token per row over all positions of its sequence, found through its block table: in parts of
// kPartition positions, which the block that comes last merges. Rows of length 0 give zeros.
struct DecodeAttention {
  const Bf16* q;                        // [rows][heads][dim]; not read where `turn` has qkv
  Bf16 *k_cache, *v_cache;              // [slots][kv_heads][dim]; written where `turn` has qkv
  const uint32_t* tables;               // [rows][table_width]: blocks
  const uint32_t* lengths;              // positions, the query's own with it
  float* part_out;                      // [rows][heads][parts][dim]
  float* part_max;                      // [rows][heads][parts]
  float* part_sum;                      // the same
  Bf16* out;                            // [rows][heads][dim]
  uint32_t rows, heads, kv_heads, dim;  // dim: 64, 96, 128 or 256; heads: a multiple of kv_heads
  uint32_t table_width, block_size;
  uint32_t parts;                    // at least parts_of(longest length), plan.h
  uint32_t window;                   // only the last so many positions; 0 = all
  float scale;                       // of q·k
  const uint32_t* starts = nullptr;  // [rows]: where a row's table begins in `tables`; null: at row * table_width
  // [rows][kv_heads * head_blocks()] zeros, which it leaves as zeros; null where `parts` is 1.
  uint32_t* arrived = nullptr;
  float cap = 0;                 // scores become cap * tanh(score / cap); 0: they stay
  const float* sinks = nullptr;  // [heads]: the score of no position, whose weight nothing is summed for; or null
  // With qkv: what rope_store would do with these rows first is done here, but for its `q`, which is not written; its
  // caches, codes and scales are those below and above. A row's slot is that of its last position.
  RopeStore turn{};
  KvCodes codes = KvCodes::kNone;  // of the caches, as in RopeStore
  float* scales = nullptr;
};

// Consecutive tokens of one sequence, whose keys and values are in the cache already, the chunk's own with them.
struct Chunk {
  uint32_t first, count;  // in q and out
  uint32_t begin;         // position of the first
  uint32_t table;         // where its block table begins in `tables`
};
// Queries [query, query + kQueryTile) of a chunk, as far as it has them, perhaps none; plan.h makes them.
struct Tile {
  uint32_t chunk, query;
};

// Attention of many query tokens per sequence, each over the positions up to its own; or, where a chunk is a whole text
// of an encoder (its begin is 0), over all of the chunk's. Keys are taken in pieces that
// begin at fixed multiples of positions, so that a token's result depends neither on how its prompt is cut into chunks
// nor on company; it may differ from DecodeAttention's in the last bits.
struct PrefillAttention {
  const Bf16* q;                  // [*][heads][dim]
  const Bf16 *k_cache, *v_cache;  // [slots][kv_heads][dim]
  const uint32_t* tables;         // blocks
  const Chunk* chunks;
  const Tile* tiles;
  Bf16* out;                      // [*][heads][dim]
  uint32_t count;                 // of tiles
  uint32_t heads, kv_heads, dim;  // as in DecodeAttention
  uint32_t block_size;
  uint32_t window;  // a token sees only the last so many positions up to its own; 0 = all
  float scale;      // of q·k
  enum Mask : uint32_t { kCausal, kBidirectional } mask = kCausal;  // kBidirectional: window is 0
  float cap = 0;                                                    // as in DecodeAttention
  const float* sinks = nullptr;                                     // the same
  enum With : uint32_t { kMma, kWgmma } with = kMma;                // kWgmma: kRefused where there is none
  KvCodes codes = KvCodes::kNone;                                   // of the caches, as in RopeStore; not of kWgmma
  const float* scales = nullptr;
  uint32_t* stuck = nullptr;  // of kWgmma: a 0 that becomes another number where a wait was given up; null: it traps
};
// Whether the kernel for Hopper does this shape. Other devices have none.
constexpr bool takes_wgmma(const PrefillAttention& a) {
  return (a.dim == 64 || a.dim == 128) && a.heads >= 2 * a.kv_heads && a.mask == a.kCausal && a.cap == 0 &&
         a.codes == KvCodes::kNone;
}

}  // namespace weir::llm::cuda
