#include "wire/proxy_protocol.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/network.h"

namespace weir::wire {
namespace {

constexpr std::string_view kSignature("\r\n\r\n\0\r\nQUIT\n", 12);
constexpr std::string_view kWord = "PROXY ";
constexpr size_t kFixed = 16;  // of v2: signature, version and command, family, length
constexpr uint8_t kVersion2 = 0x20, kTcp4 = 0x11, kTcp6 = 0x21;

std::string with_port(const base::IpAddress& ip, uint16_t port) {
  std::string host = base::ip_text(ip);
  if (!base::is_ipv4(ip)) host = '[' + host + ']';
  return host + ':' + std::to_string(port);
}

std::string_view next_word(std::string_view& line) {
  size_t end = line.find(' ');
  std::string_view word = line.substr(0, end);
  line = end == line.npos ? std::string_view() : line.substr(end + 1);
  return word;
}

// How it is written tells the family: "::ffff:192.0.2.1" is an address of TCP6, and that of a client of IPv4.
std::optional<base::IpAddress> address_of(std::string_view family, std::string_view text) {
  if ((family == "TCP6") != (text.find(':') != text.npos)) return std::nullopt;
  return base::parse_ip(text);
}

std::optional<uint16_t> port_of(std::string_view digits) {
  uint16_t port = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return port;
}

}  // namespace

// The first octet tells the versions apart.
ProxyHeader::State ProxyHeader::feed(std::span<const std::byte>& in) {
  if (state_ != State::kMore || in.empty()) return state_;
  bool binary = char(size_ > 0 ? bytes_[0] : in.front()) == kSignature[0];
  return state_ = binary ? feed_v2(in) : feed_v1(in);
}

void ProxyHeader::gather(std::span<const std::byte>& in, size_t up_to) {
  size_t n = std::min(in.size(), up_to - std::min(up_to, size_));
  std::copy_n(in.begin(), n, bytes_.begin() + ptrdiff_t(size_));
  size_ += n;
  in = in.subspan(n);
}

ProxyHeader::State ProxyHeader::feed_v1(std::span<const std::byte>& in) {
  while (!in.empty()) {
    if (size_ == bytes_.size()) return State::kBad;
    gather(in, size_ + 1);
    size_t known = std::min(size_, kWord.size());
    if (text().substr(0, known) != kWord.substr(0, known)) return State::kBad;
    if (text().ends_with('\n')) return end_v1();
  }
  return size_ == bytes_.size() ? State::kBad : State::kMore;
}

ProxyHeader::State ProxyHeader::end_v1() {
  std::string_view line = text();
  if (!line.ends_with("\r\n")) return State::kBad;
  line = line.substr(kWord.size(), line.size() - kWord.size() - 2);
  std::string_view family = next_word(line);
  if (family == "UNKNOWN") return State::kDone;
  if (family != "TCP4" && family != "TCP6") return State::kBad;
  auto source = address_of(family, next_word(line)), destination = base::parse_ip(next_word(line));
  auto from = port_of(next_word(line)), to = port_of(line);
  if (!source || !destination || !from || !to) return State::kBad;
  client_ = with_port(*source, *from);
  return State::kDone;
}

ProxyHeader::State ProxyHeader::feed_v2(std::span<const std::byte>& in) {
  if (size_ < kFixed) {
    gather(in, kFixed);
    size_t known = std::min(size_, kSignature.size());
    if (text().substr(0, known) != kSignature.substr(0, known)) return State::kBad;
    if (size_ < kFixed) return State::kMore;
    if (start_v2() == State::kBad) return State::kBad;
  }
  gather(in, kept_);
  if (size_ < kept_) return State::kMore;
  size_t passed = std::min(skip_, in.size());
  in = in.subspan(passed);
  skip_ -= passed;
  if (skip_ > 0) return State::kMore;
  end_v2();
  return State::kDone;
}

// kBad, or what of the header is still to come is known.
ProxyHeader::State ProxyHeader::start_v2() {
  uint8_t command = at(12), family = at(13);
  size_t length = size_t(at(14)) << 8 | at(15);
  if ((command & 0xf0) != kVersion2 || (command & 0x0f) > 1 || kFixed + length > kLongestV2) return State::kBad;
  size_t addresses = family == kTcp4 ? 12 : family == kTcp6 ? 36 : 0;
  if ((command & 0x0f) == 0) addresses = 0;  // LOCAL: what is there is to be ignored
  if (length < addresses) return State::kBad;
  kept_ = kFixed + addresses;
  skip_ = length - addresses;
  return State::kMore;
}

void ProxyHeader::end_v2() {
  base::IpAddress ip{};
  size_t width = kept_ == kFixed + 12 ? 4 : kept_ == kFixed + 36 ? 16 : 0;
  if (width == 0) return;
  if (width == 4) ip[10] = ip[11] = 0xff;
  for (size_t i = 0; i < width; ++i) ip[16 - width + i] = at(kFixed + i);
  size_t port = kFixed + 2 * width;
  client_ = with_port(ip, uint16_t(at(port) << 8 | at(port + 1)));
}

}  // namespace weir::wire
