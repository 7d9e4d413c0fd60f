// AnswerBody: the body of an answer in one slab, so that tensors can lie in it. It grows with what has come, whatever
// length was announced; the part share of the budget pays for it. On one shard's thread.
#pragma once

#include <cstdint>
#include <span>

#include "base/bytes.h"

namespace weir::forward {

class AnswerBody {
 public:
  AnswerBody(base::SlabSource& slabs, uint64_t most) : slabs_(slabs), most_(most) {}

  enum class Fate : uint8_t {
    kTaken,
    kLarge,    // more than `most` bytes
    kStarved,  // there is no memory for it now
  };
  Fate append(std::span<const std::byte> piece);
  base::Bytes take() { return block_.freeze(); }

 private:
  base::SlabSource& slabs_;
  const uint64_t most_;
  base::Block block_;
};

}  // namespace weir::forward
