// HelloLimit: how long a TLS client's hello may say that it is.
//
// OpenSSL makes room for a handshake message by the length in its header before any of it has come: 128 KiB for a
// ClientHello, and again for a second one behind a HelloRetryRequest. Real ones are of 0.3 to 2 KiB. So the header is
// looked at before OpenSSL sees it.
//   record:   type(1) version(2) length(2) fragment     RFC 8446 §5.1
//   message:  type(1) length(3) …                       §4
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace weir::net {

// The bytes of one connection, as far as the header of a hello. One thread.
class HelloLimit {
 public:
  static constexpr size_t kLongestHello = 16 << 10;

  // Whether the library may have the bytes that come next. No: the hello is longer than kLongestHello, or the header of
  // its message is cut over two records.
  bool allows(std::span<const std::byte> bytes);
  // Another hello is asked for.
  void expect_another() { found_ = false, skip_ = size_ = 0; }

 private:
  static constexpr size_t kRecordHeader = 5, kMessageHeader = 4;
  bool take(std::byte octet);
  size_t number(size_t from, size_t octets) const;

  std::array<std::byte, kRecordHeader + kMessageHeader> header_{};
  size_t size_ = 0;  // of header_
  size_t skip_ = 0;  // octets of a record that is no handshake's
  bool found_ = false;
};

}  // namespace weir::net
