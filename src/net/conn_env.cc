#include "net/conn_env.h"

#include "wire/forwarded.h"

namespace weir::net {

ConnEnv::ConnEnv(Shard::Parts& on, const wire::CodecEnv& codec_env, ConnectionLimit& of_all, base::Metrics& metrics)
    : shard(on),
      codecs(codec_env),
      limit(of_all),
      turned_away(metrics.counter("weir_connections_refused_total", "Connections above limits.connections.")),
      over_share(metrics.counter("weir_connections_over_share_total",
                                 "Connections above what one client may have (limits.client_share).")),
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

}  // namespace weir::net
