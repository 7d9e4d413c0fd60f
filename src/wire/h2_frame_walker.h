// FrameWalker: finds the frames of HTTP/2 (RFC 9113 §4.1) in the bytes of one direction of a connection, however they
// are cut, without keeping any payload.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/h2_frame.h"

namespace weir::wire {

class FrameWalker {
 public:
  explicit FrameWalker(size_t preface) : skip_(preface) {}
  // Walks on until a frame head is complete or `n` bytes are used up; returns how many it used. `found` says whether
  // head() is new. The bytes used include the head but not the payload.
  size_t walk(const std::byte* bytes, size_t n, bool& found);
  const FrameHead& head() const { return head_; }
  // Walks over all of `bytes`.
  void pass(std::span<const std::byte> bytes);
  // Bytes of a DATA frame's payload that come next, where they are many: what is little comes faster together with the
  // frames behind it. 0 for padded frames, whose payload is not where the frame begins.
  size_t large_payload() const;
  // Something other than DATA has begun and is not complete: a head, a header block, a control frame.
  bool inside() const { return have_ != 0 || block_open_ || (skip_ != 0 && head_.type != H2Frame::kData); }

 private:
  static constexpr uint8_t kHead = 9;

  void read(const std::byte* head);
  void complete(const std::byte* head);

  size_t skip_;  // payload (or preface) still to pass over
  uint8_t have_ = 0, need_ = kHead;
  std::array<std::byte, 13> buffer_;
  FrameHead head_;
  bool block_open_ = false;  // HEADERS without END_HEADERS yet
};

}  // namespace weir::wire
