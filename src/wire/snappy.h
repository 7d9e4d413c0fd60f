// SnappyDecoder: a message in Snappy's raw format (google/snappy, format_description.txt), which brpc's clients use by
// that name, decoded a part at a time. The library decodes it in one go, which takes longer than a turn may.
//
//   message = length element*            ; a varint of 32 bits: the bytes that come out
//   element = literal | copy             ; by the two low bits of its first octet, the tag
//   literal = tag [size] bytes           ; 0: size - 1 is the tag's upper six bits; 60 to 63: it is in 1 to 4 octets
//   copy    = tag offset                 ; 1: 4 to 11 bytes, an offset of 11 bits; 2, 3: 1 to 64 bytes, of 16, 32 bits
//
// Numbers are little-endian; an offset counts back from the end of what has come out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weir::wire {

class SnappyDecoder {
 public:
  // The coded message is borrowed.
  explicit SnappyDecoder(std::span<const std::byte> coded);

  // Bytes that come out: not more than 22 for each coded one. Nothing can be decoded where the message is broken().
  uint64_t size() const { return size_; }
  bool broken() const { return broken_; }
  bool done() const { return !broken_ && in_.empty() && literal_ == 0 && made_ == size_; }

  // Goes on behind what has been made of `out`, which has size() bytes, and returns how many bytes more it has now. So
  // much at most is done: a byte that comes out is one, and an element several. Until done(), or broken().
  size_t step(std::byte* out, size_t work);

 private:
  bool read(size_t octets, uint64_t& number);
  void begin_element(std::byte* out);
  void copy(std::byte* out, uint64_t offset, uint64_t n);

  std::span<const std::byte> in_;
  uint64_t size_ = 0, made_ = 0;
  uint64_t literal_ = 0;  // bytes that are missing of it
  bool broken_ = false;
};

}  // namespace weir::wire
