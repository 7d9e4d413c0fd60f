#include "net/hello_limit.h"

namespace weir::net {
namespace {

constexpr std::byte kHandshake{22}, kClientHello{1};

}  // namespace

bool HelloLimit::allows(std::span<const std::byte> bytes) {
  for (size_t i = 0; !found_ && i < bytes.size(); ++i)
    if (!take(bytes[i])) return false;
  return true;
}

bool HelloLimit::take(std::byte octet) {
  if (skip_ > 0) {
    --skip_;
    return true;
  }
  header_[size_++] = octet;
  if (size_ == header_.size()) {
    found_ = true;
    return header_[kRecordHeader] != kClientHello || number(kRecordHeader + 1, 3) <= kLongestHello;
  }
  if (size_ != kRecordHeader) return true;
  const size_t length = number(3, 2);
  if (header_[0] == kHandshake) return length >= kMessageHeader;
  // Before a second hello may stand change_cipher_spec, and early data, which OpenSSL skips (RFC 8446 §4.2.10).
  skip_ = length, size_ = 0;
  return true;
}

size_t HelloLimit::number(size_t from, size_t octets) const {
  size_t out = 0;
  for (size_t i = 0; i < octets; ++i) out = out << 8 | size_t(header_[from + i]);
  return out;
}

}  // namespace weir::net
