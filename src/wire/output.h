// Output: the bytes that a connection has to write, in few pieces: small pieces are copied into one block, large ones
// stay in their slabs.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <sys/uio.h>

#include "base/bytes.h"

namespace weir::wire {

class Output {
 public:
  void append(std::string_view text);
  void append(base::Bytes bytes);
  // Room for `most` bytes, to be written at once and then added as so many as there are.
  char* room(size_t most);
  void add(size_t written);

  static constexpr size_t kCopied = 2048;  // a copy of so little costs less than one more iovec

  // The memory that gather() returns stays valid until consume() has passed it, whatever is appended meanwhile.
  size_t gather(std::span<iovec> out) const;
  void consume(size_t n);
  void clear();
  // Frees the memory that is kept for reuse. Only when empty().
  void trim();

  bool empty() const { return total_ == sent_; }
  size_t size() const { return size_t(total_ - sent_); }
  // Bytes ever appended and ever consumed: positions in the connection's output.
  uint64_t total() const { return total_; }
  uint64_t sent() const { return sent_; }

 private:
  struct OutputPiece {
    base::Bytes hold;  // keeps `data` alive
    const std::byte* data;
    size_t size;
  };
  void open_block(size_t least);
  void drop_pieces();

  std::vector<OutputPiece> pieces_;
  uint32_t front_ = 0;           // pieces_ before it are gone
  bool tail_open_ = false;       // the last piece ends at used_ in block_
  base::Slab* block_ = nullptr;  // the text block that is being filled; one reference
  size_t used_ = 0;              // of block_
  uint64_t total_ = 0, sent_ = 0;

 public:
  Output() = default;
  ~Output() { clear(); }
  Output(const Output&) = delete;
};

}  // namespace weir::wire
