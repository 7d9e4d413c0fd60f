// TensorSplit: a rank's part of a model that several devices compute together (tensor parallelism), as Megatron cuts
// it: heads of queries, keys and values, and gates and ups, are the outputs of their matrices, so that a rank has whole
// rows of them; the matrices behind attention and behind the gates have a rank's heads and gates as inputs, and what
// they give is summed over the ranks. https://arxiv.org/abs/1909.08053
//
// The first rank alone has the embedding, the last norm and the output matrix: the others get its residual stream
// before the first layer, so that pictures, and tokens that were drawn there and the host does not know yet, need
// nothing of their own.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "engines/llm/load/shape.h"

namespace weir::llm::cuda {

inline constexpr uint32_t kMostRanks = 16;

struct TensorSplit {
  uint32_t rank = 0, ranks = 1;

  bool first() const { return rank == 0; }
  // A rank's share of so many, and where it begins.
  uint32_t share(uint32_t of) const { return of / ranks; }
  uint32_t begin(uint32_t of) const { return rank * share(of); }
};

// Whether so many ranks can have it: UNIMPLEMENTED, INVALID_ARGUMENT (what does not divide).
base::Status check_split(const Shape& shape, uint32_t ranks);
// A rank's part: its heads and its share of the feed-forward width. check_split() is OK.
Shape split_shape(Shape shape, uint32_t ranks);

}  // namespace weir::llm::cuda
