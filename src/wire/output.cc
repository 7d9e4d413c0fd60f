#include "wire/output.h"

#include <algorithm>
#include <utility>

#include "wire/output_block.h"

namespace weir::wire {
namespace {

constexpr size_t kBlock = 4096;

}  // namespace

void Output::open_block(size_t least) {
  if (block_) base::drop(block_);
  block_ = take_output_block(std::max(kBlock, least));
  used_ = 0;
  tail_open_ = false;
}

char* Output::room(size_t most) {
  if (!block_ || block_->capacity - used_ < most) open_block(most);
  return reinterpret_cast<char*>(block_->data + used_);
}

void Output::add(size_t written) {
  std::byte* at = block_->data + used_;
  used_ += written;
  total_ += written;
  if (tail_open_) {
    pieces_.back().size += written;
    return;
  }
  base::retain(block_);
  pieces_.push_back({base::Bytes(block_, at, written), at, written});
  tail_open_ = true;
}

void Output::append(std::string_view text) {
  if (text.empty()) return;
  std::memcpy(room(text.size()), text.data(), text.size());
  add(text.size());
}

void Output::append(base::Bytes bytes) {
  if (bytes.size() <= kCopied) return append(bytes.view());
  total_ += bytes.size();
  const std::byte* data = bytes.data();
  size_t size = bytes.size();
  pieces_.push_back({std::move(bytes), data, size});
  tail_open_ = false;
}

size_t Output::gather(std::span<iovec> out) const {
  size_t n = 0;
  for (size_t i = front_; i < pieces_.size() && n < out.size(); ++i)
    out[n++] = {const_cast<std::byte*>(pieces_[i].data), pieces_[i].size};
  return n;
}

void Output::consume(size_t n) {
  sent_ += n;
  while (n > 0) {
    OutputPiece& piece = pieces_[front_];
    size_t taken = std::min(n, piece.size);
    piece.data += taken, piece.size -= taken, n -= taken;
    if (piece.size > 0) return;
    piece.hold = base::Bytes();
    ++front_;
  }
  if (front_ < pieces_.size()) {
    if (front_ < 64) return;
    pieces_.erase(pieces_.begin(), pieces_.begin() + ptrdiff_t(front_));
    front_ = 0;
    return;
  }
  drop_pieces();
}

void Output::drop_pieces() {
  pieces_.clear();
  front_ = 0;
  tail_open_ = false;
  used_ = 0;
  give_output_block(std::exchange(block_, nullptr));  // nothing points into it any more
}

void Output::clear() {
  drop_pieces();
  sent_ = total_;
}

void Output::trim() {
  if (empty()) pieces_.shrink_to_fit();
}

}  // namespace weir::wire
