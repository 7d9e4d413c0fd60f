#include "wire/h2_frame_walker.h"

#include <algorithm>
#include <cstring>

namespace weir::wire {
namespace {

constexpr uint8_t kFlagEndHeaders = 0x4;

// How many octets of the payload a FrameHead is read from: the pad length of DATA, the dependency of PRIORITY.
uint8_t octets_of_payload(const FrameHead& head) {
  if (head.type == H2Frame::kData && head.padded() && head.length > 0) return 1;
  return head.type == H2Frame::kPriority && head.length == 5 ? 4 : 0;
}

}  // namespace

// Its nine octets, and those behind them that octets_of_payload() asks for.
void FrameWalker::read(const std::byte* head) {
  auto at = [head](size_t i) { return uint32_t(head[i]); };
  head_ = {at(0) << 16 | at(1) << 8 | at(2), H2Frame(at(3)), uint8_t(at(4)),
           int32_t((at(5) & 0x7f) << 24 | at(6) << 16 | at(7) << 8 | at(8)), false};
}

// Only a head that is cut is copied into buffer_.
size_t FrameWalker::walk(const std::byte* bytes, size_t n, bool& found) {
  found = false;
  size_t used = std::min(skip_, n);
  skip_ -= used;
  while (used < n) {
    const bool whole = have_ == 0 && n - used >= buffer_.size();
    const std::byte* from = bytes + used;
    if (whole) {
      read(from);
      need_ = kHead + octets_of_payload(head_);
      used += need_;
    } else {
      size_t part = std::min<size_t>(need_ - have_, n - used);
      std::memcpy(buffer_.data() + have_, from, part);
      have_ += uint8_t(part);
      used += part;
      if (have_ < need_) break;
      read(from = buffer_.data());
      uint8_t more = octets_of_payload(head_);
      if (need_ == kHead && more > 0) {
        need_ += more;
        continue;
      }
    }
    complete(from);
    found = true;
    break;
  }
  return used;
}

void FrameWalker::complete(const std::byte* head) {
  auto at = [head](size_t i) { return uint32_t(head[i]); };
  if (need_ == kHead + 1) head_.only_padding = at(9) + 1 >= head_.length;
  if (need_ == kHead + 4) head_.depends_on = int32_t((at(9) & 0x7f) << 24 | at(10) << 16 | at(11) << 8 | at(12));
  if (head_.type == H2Frame::kHeaders || head_.type == H2Frame::kContinuation)
    block_open_ = !(head_.flags & kFlagEndHeaders);
  skip_ = head_.length - (need_ - kHead);
  have_ = 0;
  need_ = kHead;
}

void FrameWalker::pass(std::span<const std::byte> bytes) {
  bool found = false;
  for (size_t at = 0; at < bytes.size();) at += walk(bytes.data() + at, bytes.size() - at, found);
}

size_t FrameWalker::large_payload() const {
  constexpr size_t kLarge = 64 << 10;
  return have_ == 0 && skip_ >= kLarge && head_.type == H2Frame::kData && !head_.padded() ? skip_ : 0;
}

}  // namespace weir::wire
