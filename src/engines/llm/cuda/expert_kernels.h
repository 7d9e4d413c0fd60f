// The kernels of mixtures of experts, a part of the table of kernels.h: what is said there holds here.
//
// A row goes to `used` of `count` experts. Row r's choice i is pair r * used + i; a row's pairs are in the order of
// their experts. Products are made by expert: of few rows each pair by itself, of more the pairs of an expert together
// in tiles (`order`, `tiles`), which a kernel before lays out; the host knows only how many there are at most, so that
// a graph holds whatever the router says. A pair's result depends on its row and expert alone, and on a device on
// whether pairs go in tiles (more than kPairRows rows) or by themselves; of a weight in codes also on
// expert_tile_rows().
#pragma once

#include "engines/llm/cuda/device_matrix.h"
#include "engines/llm/cuda/kernel_types.h"

namespace weir::llm::cuda {

inline constexpr uint32_t kMostExperts = 1024, kMostUsed = 32;  // that route takes
inline constexpr uint32_t kPairRows = 4;                        // rows whose pairs are multiplied one by one, at most

// The best experts of each row, of equal ones the first; NaN is the least. Their shares are of a softmax over all, or
// over those that are used, times `scale`. A row without a number above -inf has some experts, and shares of NaN.
struct Route {
  const float* scores;                 // [rows][stride], the experts' first
  uint32_t* experts;                   // [rows][used], ascending
  float* shares;                       // the same
  uint32_t rows, count, used, stride;  // used <= count <= kMostExperts; used <= kMostUsed
  float scale;
  enum Shares : uint32_t { kOfAll, kOfUsed } of = kOfAll;
};

// Pairs order[first], … of one expert; count 0: an idle one.
struct ExpertTile {
  uint32_t expert, first, count;
};

// Pairs of a tile: large ones where experts have many.
constexpr uint32_t expert_tile_rows(uint32_t pairs, uint32_t count) {
  return pairs <= 16 * count ? 16 : pairs <= 96 * count ? 64 : 128;
}
// Tiles that any choice of experts needs at most.
constexpr uint32_t expert_tiles(uint32_t pairs, uint32_t count) {
  const uint32_t rows = expert_tile_rows(pairs, count), busy = pairs < count ? pairs : count;
  return uint32_t((pairs + uint64_t(busy) * (rows - 1)) / rows);
}

// Sorts the pairs by expert, those of one in their order, and cuts them into tiles; the rest of the tiles are idle.
struct PlacePairs {
  const uint32_t* experts;  // [pairs], below count
  uint32_t* order;          // [pairs]
  ExpertTile* tiles;        // [expert_tiles(pairs, count)]
  uint32_t pairs, count;    // count <= kMostExperts
};

// out[p] = weight[experts[p]] x[p / per] (+ bias[experts[p]]), of each pair; with kSwiGlu an expert has the gates' rows
// and then those of `up`, and out is both as `kind` says. Nothing is rounded between.
struct ExpertMatmul {
  enum Into : uint32_t { kF32, kSwiGlu };
  const Bf16* x;        // [pairs / per][inputs]
  DeviceMatrix weight;  // [count][outputs][inputs], with kSwiGlu [count][2 * outputs][inputs]
  void* out;            // [pairs][outputs]: floats, with kSwiGlu Bf16
  const uint32_t* experts;
  const uint32_t* order;    // of PlacePairs; null: each pair by itself
  const ExpertTile* tiles;  // null where `order` is
  uint32_t pairs, count, per;
  uint32_t outputs, inputs;  // multiples of 8; x, weight and out are 16-byte aligned
  Into into;
  const float* bias = nullptr;  // [count][outputs], with kSwiGlu [count][2 * outputs]; or null
  Gate kind = Gate::kSilu;      // with kSwiGlu
};

// stream[r] += the sum of shares[p] answers[p] over the row's pairs in their order; then += scale * sigmoid of the
// row's number `gate` of scores, times shared[r], where there is that.
struct AddExperts {
  float* stream;         // [rows][hidden]
  const float* answers;  // [rows * used][hidden]
  const float* shares;   // [rows][used]
  const float* shared;   // [rows][hidden], or null
  const float* scores;   // [rows][stride]
  uint32_t rows, used, hidden, stride, gate;
  float scale;
};

struct ExpertKernels {
  Code (*route)(const Launch&, const Route&);
  Code (*place_pairs)(const Launch&, const PlacePairs&);
  Code (*expert_matmul)(const Launch&, const ExpertMatmul&);
  Code (*add_experts)(const Launch&, const AddExperts&);
};

}  // namespace weir::llm::cuda
