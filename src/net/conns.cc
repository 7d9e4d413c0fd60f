#include "net/conns.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/attempt.h"
#include "net/shard_parts.h"
#include "wire/body_memory.h"

namespace weir::net {
namespace {

constexpr std::array<const char*, 2> kTransports{"tcp", "unix"};
constexpr std::array<const char*, 5> kEnds{"peer", "server", "idle", "drain", "error"};

template <size_t kN>
std::array<base::Counter*, kN> counters(base::Metrics& metrics, const char* name, const char* help,
                                        const std::array<const char*, kN>& by) {
  std::array<base::Counter*, kN> out;
  for (size_t i = 0; i < kN; ++i) out[i] = &metrics.counter(name, help, {{"by", by[i]}});
  return out;
}

}  // namespace

Conns::Conns(Shard& shard, const wire::CodecEnv& codecs, ConnectionLimit& connection_limit, base::Metrics& metrics,
             std::function<void()> emptied)
    : shard_(shard),
      codecs_(codecs),
      connection_limit_(connection_limit),
      emptied_(std::move(emptied)),
      open_(metrics.gauge("weir_connections", "Connections that are open.")),
      accepted_(counters(metrics, "weir_connections_total", "Connections accepted, by kind of socket.", kTransports)),
      closed_(counters(metrics, "weir_connections_closed_total", "Connections closed, by who ended them.", kEnds)),
      turned_away_(metrics.counter("weir_connections_refused_total", "Connections above limits.connections.")),
      over_share_(metrics.counter("weir_connections_over_share_total",
                                  "Connections above what one client may have (limits.client_share).")),
      bytes_in_(metrics.counter("weir_received_bytes_total", "Bytes read from connections.")),
      bytes_out_(metrics.counter("weir_sent_bytes_total", "Bytes written to connections.")) {}

Conns::~Conns() = default;

void Conns::use(std::shared_ptr<const TlsContext> tls, Cleartext tcp) {
  tls_ = std::move(tls);
  tcp_cleartext_ = tcp;
}

void Conns::adopt(Accepted accepted) {
  auto whose = client(accepted.peer);
  if (!admitted(connection_limit_.enter(whose.get()))) return;
  accepted_[size_t(accepted.transport)]->add();
  open_.add(1);
  Conn* conn = nullptr;
  auto status = base::attempt("a new connection", [&] {
    conn = &keep(std::move(accepted), whose);
    conn->begin();
  });
  if (status.ok()) return;
  if (conn) return conn->close(ClosedBy::kError);
  closed_[size_t(ClosedBy::kError)]->add();
  open_.add(-1);
  connection_limit_.leave(whose.get());
}

Conn& Conns::keep(Accepted accepted, base::ClientRef client) {
  arm_sweep();
  conns_.push_back(std::make_unique<Conn>(*this, std::move(accepted), std::move(client)));
  conns_.back()->slot = conns_.size() - 1;
  return *conns_.back();
}

bool Conns::admitted(ConnectionLimit::Outcome entry) {
  if (entry == ConnectionLimit::Outcome::kFull) turned_away_.add();
  if (entry == ConnectionLimit::Outcome::kOverShare) over_share_.add();
  return entry == ConnectionLimit::Outcome::kYes;
}

base::ClientRef Conns::client(std::string_view peer) const {
  return codecs_.proxies ? codecs_.proxies->client(peer) : base::ClientRef();
}

void Conns::leave(Conn& conn, ClosedBy by) {
  closed_[size_t(by)]->add();
  open_.add(-1);
  auto& place = conns_[conn.slot];
  auto gone = std::move(place);
  if (conns_.size() != gone->slot + 1) {
    place = std::move(conns_.back());
    place->slot = gone->slot;
  }
  conns_.pop_back();
  unswept_ = std::min(unswept_, conns_.size());
  connection_limit_.leave(gone->client());
  shard_.parts().retire(std::move(gone));
  if (conns_.empty()) emptied_();
}

// A shard without connections has no timer and sleeps.
void Conns::arm_sweep() {
  if (sweep_ != base::TimerId::kNone) return;
  auto& env = shard_.env();
  sweep_ = env.at(env.now() + std::chrono::seconds(1), [this] { sweep(); });
}

// From the end: whoever closes is replaced by one that has had its turn. Many take several turns of the loop.
void Conns::sweep() {
  sweep_ = base::TimerId::kNone;
  auto now = shard_.env().now();
  if (unswept_ == 0) unswept_ = conns_.size(), swept_from_ = now;
  for (bool more = true; more && unswept_ > 0; more = !shard_.turn_is_long()) conns_[--unswept_]->tick(now);
  if (conns_.empty()) return;
  auto next = unswept_ > 0 ? now + base::Duration(1) : swept_from_ + std::chrono::seconds(1);
  sweep_ = shard_.env().at(next, [this] { sweep(); });
}

void Conns::drain(wire::Drain step) {
  draining_ = step;
  for (size_t i = conns_.size(); i-- > 0;) conns_[i]->drain(step);
}

size_t Conns::close_all(ClosedBy by) {
  size_t busy = 0;
  for (size_t i = conns_.size(); i-- > 0;) {
    busy += conns_[i]->busy();
    conns_[i]->close(by);
  }
  shard_.env().cancel(std::exchange(sweep_, base::TimerId::kNone));
  return busy;
}

// Where nobody keeps a line of those who wait, all look.
void Conns::resume_reading() {
  if (codecs_.bodies) return codecs_.bodies->came();
  for (size_t i = conns_.size(); i-- > 0;) conns_[i]->resume();
}

}  // namespace weir::net
