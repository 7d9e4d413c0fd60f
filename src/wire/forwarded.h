// The client on whose behalf a proxy asks, by the fields `Forwarded` (RFC 7239) and `X-Forwarded-For`.
//
//   Forwarded       = forwarded-element *( "," forwarded-element )
//   element         = pair *( ";" pair )        ; for=192.0.2.1   for="[2001:db8::1]:4711"   for=unknown
//   X-Forwarded-For = address *( "," address )  ; 192.0.2.1, 2001:db8::1, 192.0.2.1:4711, [2001:db8::1]:4711
//
// Each proxy appends the address that has connected to it. So the list is read from its end, past trusted proxies, to
// the first address that is not trusted: that is the client. Anybody may have written what stands before it. Only one
// of the two fields is believed, the one that the proxies write, since they pass the other on as their client wrote it.
// The fields of peers that are not listed are ignored.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "base/clients.h"
#include "base/network.h"
#include "wire/exchange.h"

namespace weir::wire {

class TrustedProxies {
 public:
  enum class Field : uint8_t { kXForwardedFor, kForwarded };
  // `clients` is borrowed.
  TrustedProxies(base::NetworkList trusted, Field field, base::Clients& clients)
      : trusted_(std::move(trusted)), field_(field), clients_(clients) {}

  // True if that peer, named as a connection does, may say for whom it asks.
  bool trusts(std::string_view peer) const { return trusted_.has_peer(peer); }
  // The entry of the table for a peer of that address.
  base::ClientRef client(std::string_view peer) const;
  // Returns the client that the fields name. Null: none, or not by an address; then the peer is the client.
  std::unique_ptr<PeerInfo> named(const Fields& fields, const PeerInfo& peer) const;

 private:
  enum class Next : uint8_t { kOn, kStop };
  Next read_list(std::string_view value, std::string_view& client) const;
  Next read_node(std::string_view node, std::string_view& client) const;

  const base::NetworkList trusted_;
  const Field field_;
  base::Clients& clients_;
};

}  // namespace weir::wire
