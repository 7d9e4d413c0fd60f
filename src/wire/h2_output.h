// H2Output: the bytes of one connection that wait for its socket. Frame heads and small pieces lie one behind the other
// in blocks of our own; large pieces are referenced where they are. Addresses stay put until the bytes are consumed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <sys/uio.h>

#include "base/bytes.h"
#include "wire/fifo.h"

namespace weir::wire {

class H2Output {
 public:
  H2Output() = default;
  H2Output(const H2Output&) = delete;
  H2Output& operator=(const H2Output&) = delete;
  ~H2Output() { clear(); }

  void copy(const void* from, size_t n);
  void refer(base::Bytes piece);
  // Room for `n` bytes in a row, at most kMostInRow, to be written there; wrote() follows at once.
  char* room(size_t n);
  void wrote(size_t n);
  static constexpr size_t kMostInRow = 1024;

  bool empty() const { return put_ == taken_; }
  size_t size() const { return size_t(put_ - taken_); }
  // Positions in the stream of all bytes ever: of the next byte to be put, and of the next to be taken.
  uint64_t put() const { return put_; }
  uint64_t taken() const { return taken_; }

  size_t gather(std::span<iovec> out);
  void consumed(size_t n);
  void clear();
  // Gives memory back that only a burst needs.
  void shrink();

 private:
  static constexpr size_t kBlock = 16 << 10;

  void give_block();
  void next_block();
  void put_piece(std::byte* at, size_t n);

  struct StreamPiece {
    const std::byte* data = nullptr;
    size_t size = 0;
    base::Bytes hold;  // keeps the memory alive
  };

  Fifo<StreamPiece> pieces_;
  size_t front_at_ = 0;          // bytes of the first piece that are gone
  base::Slab* block_ = nullptr;  // one reference is ours
  size_t block_used_ = 0;
  uint64_t put_ = 0, taken_ = 0;
};

}  // namespace weir::wire
