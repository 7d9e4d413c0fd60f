#include "wire/snappy.h"

#include <algorithm>
#include <cstring>

namespace weir::wire {
namespace {

constexpr uint64_t kMostPerCoded = 22;  // a copy of 64 bytes takes three octets
constexpr size_t kWorkPerElement = 8;

}  // namespace

SnappyDecoder::SnappyDecoder(std::span<const std::byte> coded) : in_(coded) {
  bool more = true;
  for (unsigned shift = 0; more && shift < 35 && !in_.empty(); shift += 7) {
    size_ |= uint64_t(in_[0] & std::byte(0x7f)) << shift;
    more = (in_[0] & std::byte(0x80)) != std::byte(0);
    in_ = in_.subspan(1);
  }
  broken_ = more || size_ > UINT32_MAX || size_ > kMostPerCoded * in_.size();
}

bool SnappyDecoder::read(size_t octets, uint64_t& number) {
  if (in_.size() < octets) return !(broken_ = true);
  number = 0;
  for (size_t i = 0; i < octets; ++i) number |= uint64_t(in_[i]) << (8 * i);
  in_ = in_.subspan(octets);
  return true;
}

void SnappyDecoder::copy(std::byte* out, uint64_t offset, uint64_t n) {
  if (offset == 0 || offset > made_ || n > size_ - made_) {
    broken_ = true;
    return;
  }
  std::byte* const to = out + made_;
  const std::byte* const from = to - offset;
  if (offset >= n)
    std::memcpy(to, from, n);
  else
    for (uint64_t i = 0; i < n; ++i) to[i] = from[i];  // what it copies it makes
  made_ += n;
}

void SnappyDecoder::begin_element(std::byte* out) {
  const auto tag = uint8_t(in_[0]);
  in_ = in_.subspan(1);
  const uint64_t upper = tag >> 2;
  uint64_t number = 0;
  switch (tag & 3) {
    case 0:
      if (upper >= 60 && !read(size_t(upper - 59), number)) return;
      literal_ = (upper >= 60 ? number : upper) + 1;
      broken_ = literal_ > size_ - made_ || literal_ > in_.size();
      return;
    case 1:
      if (read(1, number)) copy(out, uint64_t(tag >> 5) << 8 | number, 4 + (upper & 7));
      return;
    default:
      if (read((tag & 3) == 2 ? 2 : 4, number)) copy(out, number, upper + 1);
  }
}

size_t SnappyDecoder::step(std::byte* out, size_t work) {
  const uint64_t before = made_;
  while (work > 0 && !broken_ && !(in_.empty() && literal_ == 0)) {
    const uint64_t made = made_;
    if (literal_ == 0) {
      begin_element(out);
      work -= std::min(work, kWorkPerElement);
    } else {
      const auto n = size_t(std::min<uint64_t>(literal_, work));
      std::memcpy(out + made_, in_.data(), n);
      in_ = in_.subspan(n);
      made_ += n, literal_ -= n;
    }
    work -= std::min(work, size_t(made_ - made));
  }
  broken_ = broken_ || (in_.empty() && literal_ == 0 && made_ != size_);
  return size_t(made_ - before);
}

}  // namespace weir::wire
