// The PROXY protocol, versions 1 and 2 (haproxy/doc/proxy-protocol.txt): what a proxy writes before the bytes of a
// connection that it passes on, so that the server knows whose they are.
//
//   v1  = "PROXY" SP ("TCP4" / "TCP6") SP source SP destination SP port SP port CRLF     107 octets at most
//       / "PROXY" SP "UNKNOWN" *octet CRLF
//   v2  = %x0D.0A.0D.0A.00.0D.0A.51.55.49.54.0A  version-command  family  length16  addresses  *tlv
//   version-command = %x20 (LOCAL: the proxy itself)  /  %x21 (PROXY)
//   family          = %x11 (TCP over IPv4: 12 octets)  /  %x21 (over IPv6: 36 octets)  /  others: no address
//
// The header comes from listed peers only (`http.proxy_protocol`), and from those always: a peer that may leave it out
// could let its clients write it. No more than 52 octets are kept; the rest of a v2 header, 4 KiB at most, is passed
// over. No I/O, one thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace weir::wire {

class ProxyHeader {
 public:
  static constexpr size_t kLongestV1 = 107;
  static constexpr size_t kLongestV2 = 16 + 4096;  // all of it; the specification allows 64 KiB, TLVs take hundreds

  enum class State : uint8_t { kMore, kDone, kBad };
  // Takes the header's octets off the front of `in`, however they are cut; what follows the header stays.
  State feed(std::span<const std::byte>& in);
  // In kDone: whose connection it is, "192.0.2.1:5000", "[2001:db8::1]:5000"; empty where the header names nobody: then
  // it is the proxy's own.
  const std::string& client() const { return client_; }

 private:
  State feed_v1(std::span<const std::byte>& in);
  State feed_v2(std::span<const std::byte>& in);
  State end_v1();
  State start_v2();
  void end_v2();
  void gather(std::span<const std::byte>& in, size_t up_to);
  uint8_t at(size_t i) const { return uint8_t(bytes_[i]); }
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes_.data()), size_}; }

  std::array<std::byte, kLongestV1> bytes_{};  // the header so far; of v2 without the TLVs
  size_t size_ = 0;
  size_t kept_ = 0;  // v2: of the header, those octets that are kept
  size_t skip_ = 0;  // v2: octets still to pass over
  State state_ = State::kMore;
  std::string client_;
};

}  // namespace weir::wire
