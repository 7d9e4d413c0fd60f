#include "wire/h2_output.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "wire/output_block.h"

namespace weir::wire {

void H2Output::next_block() {
  if (block_) base::drop(block_);
  block_ = take_output_block(kBlock);
  block_used_ = 0;
}

// The next `n` bytes of the block are what follows.
void H2Output::put_piece(std::byte* at, size_t n) {
  block_used_ += n;
  if (!pieces_.empty() && pieces_.back().data + pieces_.back().size == at) {
    pieces_.back().size += n;
  } else {
    base::retain(block_);
    pieces_.push({at, n, base::Bytes(block_, at, n)});
  }
}

void H2Output::copy(const void* from, size_t n) {
  const auto* bytes = static_cast<const std::byte*>(from);
  put_ += n;
  while (n > 0) {
    if (!block_ || block_used_ == block_->capacity) next_block();
    std::byte* at = block_->data + block_used_;
    const size_t part = std::min(n, block_->capacity - block_used_);
    std::memcpy(at, bytes, part);
    put_piece(at, part);
    bytes += part;
    n -= part;
  }
}

char* H2Output::room(size_t n) {
  if (!block_ || block_->capacity - block_used_ < n) next_block();
  return reinterpret_cast<char*>(block_->data + block_used_);
}

void H2Output::wrote(size_t n) {
  put_ += n;
  put_piece(block_->data + block_used_, n);
}

void H2Output::refer(base::Bytes piece) {
  put_ += piece.size();
  if (!piece.empty()) pieces_.push({piece.data(), piece.size(), std::move(piece)});
}

size_t H2Output::gather(std::span<iovec> out) {
  size_t n = std::min(out.size(), pieces_.size());
  for (size_t i = 0; i < n; ++i) {
    const StreamPiece& p = pieces_[i];
    size_t skip = i == 0 ? front_at_ : 0;
    out[i] = {const_cast<std::byte*>(p.data) + skip, p.size - skip};
  }
  return n;
}

void H2Output::consumed(size_t n) {
  taken_ += n;
  while (n > 0) {
    size_t left = pieces_.front().size - front_at_;
    if (n < left) {
      front_at_ += n;
      return;
    }
    n -= left;
    front_at_ = 0;
    pieces_.pop();
  }
  if (pieces_.empty()) give_block();
}

// Nobody refers to it any more.
void H2Output::give_block() {
  give_output_block(std::exchange(block_, nullptr));
  block_used_ = 0;
}

void H2Output::clear() {
  pieces_.clear();
  front_at_ = 0;
  taken_ = put_;
  shrink();
}

void H2Output::shrink() {
  if (!empty()) return;
  pieces_.shrink();
  give_block();
}

}  // namespace weir::wire
