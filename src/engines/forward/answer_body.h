// AnswerBody: the body of an answer in one slab, so that tensors can lie in it. It grows with what has come, whatever
// length was announced; the part share of the budget pays for it. On one shard's thread.
//
// It moves into a larger slab while the one that it has still fills, some bytes with each piece: no piece, however
// large the body is, makes a turn of the loop copy more than a few times its own size.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/bytes.h"
#include "wire/growing_block.h"

namespace weir::forward {

class AnswerBody {
 public:
  AnswerBody(base::SlabSource& slabs, uint64_t most) : slabs_(slabs), most_(most) {}

  // The length that Content-Length announces; anything but a number says nothing. Takes no memory.
  void expect(std::string_view content_length);

  enum class Fate : uint8_t {
    kTaken,
    kLarge,    // more than `most` bytes
    kStarved,  // there is no memory for it now
  };
  Fate append(std::span<const std::byte> piece);
  // Where to read the next piece: append() of one that begins there copies nothing of it.
  std::span<std::byte> receive_buffer() {
    return block_ ? std::span(block_.end(), block_.room()) : std::span<std::byte>();
  }
  base::Bytes take();

 private:
  bool make_room(uint64_t size);
  bool widen(uint64_t size);
  void move_on(size_t piece);

  base::SlabSource& slabs_;
  const uint64_t most_;
  uint64_t expected_ = 0;  // 0: nobody knows
  wire::GrowingBlock block_;
};

}  // namespace weir::forward
