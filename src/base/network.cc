#include "base/network.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace weir::base {
namespace {

constexpr unsigned kMapped = 96;     // bits of ::ffff:0:0
constexpr size_t kLongestText = 45;  // INET6_ADDRSTRLEN without the end
constexpr size_t kClientBytes = 8;   // of an IPv6 address: a /64

}  // namespace

std::optional<IpAddress> parse_ip(std::string_view text) {
  if (text.empty() || text.size() > kLongestText || text.find('\0') != text.npos) return std::nullopt;
  std::array<char, kLongestText + 1> word{};
  std::copy(text.begin(), text.end(), word.begin());
  IpAddress out{};
  if (::inet_pton(AF_INET, word.data(), out.data() + 12) == 1) {
    out[10] = out[11] = 0xff;
    return out;
  }
  if (::inet_pton(AF_INET6, word.data(), out.data()) == 1) return out;
  return std::nullopt;
}

bool is_ipv4(const IpAddress& address) {
  return std::all_of(address.begin(), address.begin() + 10, [](uint8_t b) { return b == 0; }) && address[10] == 0xff &&
         address[11] == 0xff;
}

std::string ip_text(const IpAddress& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (is_ipv4(address))
    ::inet_ntop(AF_INET, address.data() + 12, text, sizeof text);
  else
    ::inet_ntop(AF_INET6, address.data(), text, sizeof text);
  return text;
}

bool Network::has(const IpAddress& address) const {
  unsigned whole = bits / 8, rest = bits % 8;
  if (!std::equal(prefix.begin(), prefix.begin() + whole, address.begin())) return false;
  return rest == 0 || ((prefix[whole] ^ address[whole]) >> (8 - rest)) == 0;
}

Result<Network> parse_network(std::string_view text) {
  std::string_view address = text.substr(0, text.find('/'));
  auto ip = parse_ip(address);
  if (!ip) return invalid("'" + std::string(text) + "' is no address and no network");
  Network out{*ip, 128};
  if (address.size() == text.size()) return out;
  std::string_view bits = text.substr(address.size() + 1);
  bool v4 = address.find(':') == address.npos;
  unsigned count = 0;
  auto [end, error] = std::from_chars(bits.data(), bits.data() + bits.size(), count);
  if (error != std::errc() || end != bits.data() + bits.size() || count > (v4 ? 32u : 128u))
    return invalid("'" + std::string(text) + "': after the slash comes the number of bits");
  out.bits = v4 ? count + kMapped : count;
  return out;
}

Result<NetworkList> NetworkList::parse(const std::vector<std::string>& entries) {
  NetworkList out;
  for (const auto& entry : entries) {
    if (entry == "unix") {
      out.unix_ = true;
      continue;
    }
    auto network = parse_network(entry);
    if (!network) return std::move(network).error();
    out.networks_.push_back(*network);
  }
  return out;
}

bool NetworkList::has(const IpAddress& address) const {
  return std::any_of(networks_.begin(), networks_.end(), [&](const Network& n) { return n.has(address); });
}

bool NetworkList::has_peer(std::string_view peer) const {
  if (empty()) return false;
  auto ip = ip_of(peer);
  return ip ? has(*ip) : unix_ && peer == "unix";
}

std::optional<IpAddress> ip_of(std::string_view peer) {
  if (peer.starts_with('[')) {
    size_t end = peer.find(']');
    if (end == peer.npos || (end + 1 < peer.size() && peer[end + 1] != ':')) return std::nullopt;
    return parse_ip(peer.substr(1, end - 1));
  }
  size_t colon = peer.find(':');
  if (colon != peer.npos && peer.find(':', colon + 1) == peer.npos) peer = peer.substr(0, colon);
  return parse_ip(peer);
}

std::string client_name(std::string_view peer) {
  auto ip = ip_of(peer);
  if (!ip) return std::string(peer);
  if (is_ipv4(*ip)) return ip_text(*ip);
  std::fill(ip->begin() + kClientBytes, ip->end(), uint8_t(0));
  return ip_text(*ip) + "/64";
}

}  // namespace weir::base
