// ConnEnv: all that the connections of one shard share.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "base/metrics.h"
#include "base/network.h"
#include "net/connection_limit.h"
#include "net/flood_penalty.h"
#include "net/shard_parts.h"
#include "net/tls.h"
#include "wire/codec.h"

namespace weir::net {

enum class Cleartext : bool { kRefused, kServed };

// The shard's thread only. Conns owns it.
struct ConnEnv {
  ConnEnv(Shard::Parts& shard, const wire::CodecEnv& codecs, ConnectionLimit& limit, base::Metrics& metrics);

  // The client of a connection, by the address of its peer; null: nobody counts.
  base::ClientRef client(std::string_view peer) const;
  // The peer is a proxy that names its clients in header fields.
  bool trusts(std::string_view peer) const;
  // Its connections begin with a PROXY header.
  bool expects_header(std::string_view peer) const { return proxied && proxied->has_peer(peer); }
  // Counts a connection that must not be.
  bool admitted(ConnectionLimit::Outcome entry);
  // Whether a client that has not flooded too often connects; counts one that has.
  bool unpunished(const base::Client* client);
  // A connection of that peer has ended for a flood.
  void note_flood(const wire::PeerInfo& peer);

  Shard::Parts& shard;
  const wire::CodecEnv codecs;
  ConnectionLimit& limit;
  std::shared_ptr<const TlsContext> tls;       // null: no TLS
  std::shared_ptr<const TlsContext> node_tls;  // of listeners for nodes; null: there are none
  Cleartext tcp_cleartext = Cleartext::kServed;
  const base::NetworkList* proxied = nullptr;
  std::optional<wire::Drain> draining;  // the last step of it
  FloodPenalty penalty;
  base::Counter &turned_away, &over_share, &penalized, &bytes_in, &bytes_out;
};

}  // namespace weir::net
