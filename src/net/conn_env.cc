#include "net/conn_env.h"

#include "base/log.h"
#include "wire/forwarded.h"

namespace weir::net {

ConnEnv::ConnEnv(Shard::Parts& on, const wire::CodecEnv& codec_env, ConnectionLimit& of_all, base::Metrics& metrics)
    : shard(on),
      codecs(codec_env),
      limit(of_all),
      turned_away(metrics.counter("weir_connections_refused_total", "Connections above limits.connections.")),
      over_share(metrics.counter("weir_connections_over_share_total",
                                 "Connections above what one client may have (limits.client_share).")),
      penalized(metrics.counter("weir_connections_penalized_total",
                                "Connections closed unread because their client's earlier ones ended for floods.")),
      bytes_in(metrics.counter("weir_received_bytes_total", "Bytes read from connections.")),
      bytes_out(metrics.counter("weir_sent_bytes_total", "Bytes written to connections.")) {}

base::ClientRef ConnEnv::client(std::string_view peer) const {
  return codecs.proxies ? codecs.proxies->client(peer) : base::ClientRef();
}

bool ConnEnv::trusts(std::string_view peer) const { return codecs.proxies && codecs.proxies->trusts(peer); }

bool ConnEnv::admitted(ConnectionLimit::Outcome entry) {
  if (entry == ConnectionLimit::Outcome::kFull) turned_away.add();
  if (entry == ConnectionLimit::Outcome::kOverShare) over_share.add();
  return entry == ConnectionLimit::Outcome::kYes;
}

bool ConnEnv::unpunished(const base::Client* client) {
  if (!penalty.applies(client, shard.now())) return true;
  penalized.add();
  return false;
}

void ConnEnv::note_flood(const wire::PeerInfo& peer) {
  if (!penalty.add(peer.client, shard.now())) return;
  base::log::warning("a client floods: its new connections are closed unread for a few seconds",
                     {{"client", peer.client->name()}});
}

}  // namespace weir::net
