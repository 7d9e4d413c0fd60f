// PROXY headers and lists of forwarding proxies: the same result however the bytes are cut, and bounded memory.
#include <algorithm>
#include <span>
#include <string_view>

#include "require.h"
#include "wire/forwarded.h"
#include "wire/proxy_protocol.h"

namespace {

using weir::require;
using weir::wire::ProxyHeader;

struct Outcome {
  ProxyHeader::State state = ProxyHeader::State::kMore;
  std::string client;
  size_t left = 0;
  bool operator==(const Outcome&) const = default;
};

Outcome parse(std::span<const std::byte> all, size_t step) {
  ProxyHeader header;
  Outcome out;
  out.left = all.size();
  for (size_t at = 0; at < all.size() && out.state == ProxyHeader::State::kMore; at += step) {
    auto piece = all.subspan(at, std::min(step, all.size() - at));
    size_t size = piece.size();
    out.state = header.feed(piece);
    out.left -= size - piece.size();
  }
  out.client = header.client();
  return out;
}

void forwarded(std::string_view value) {
  using weir::wire::TrustedProxies;
  static weir::base::Clients clients;
  for (auto field : {TrustedProxies::Field::kXForwardedFor, TrustedProxies::Field::kForwarded}) {
    TrustedProxies proxies(weir::base::NetworkList::parse({"10.0.0.0/8"}).value(), field, clients);
    weir::wire::Fields fields;
    fields.add(field == TrustedProxies::Field::kForwarded ? "forwarded" : "x-forwarded-for", value);
    weir::wire::PeerInfo peer;
    peer.address = "10.0.0.1:1";
    if (auto named = proxies.named(fields, peer))
      require(weir::base::ip_of(named->address).has_value(), "who is named has an address");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto all = std::as_bytes(std::span(data, size));
  auto whole = parse(all, std::max<size_t>(size, 1));
  if (whole.state == ProxyHeader::State::kDone) {
    require(whole == parse(all, 1) && whole == parse(all, 7), "the same however it is cut");
    require(whole.client.empty() || weir::base::ip_of(whole.client).has_value(), "a client is an address");
    require(size - whole.left <= ProxyHeader::kLongestV2, "no header is longer");
  } else {
    require(parse(all, 1).state == whole.state, "the same however it is cut");
  }
  forwarded({reinterpret_cast<const char*>(data), size});
  return 0;
}
