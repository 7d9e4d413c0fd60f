#include "net/conns.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/attempt.h"
#include "base/take_out.h"
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
    : env_(shard.parts(), codecs, connection_limit, metrics),
      emptied_(std::move(emptied)),
      open_(metrics.gauge("weir_connections", "Connections that are open.")),
      accepted_(counters(metrics, "weir_connections_total", "Connections accepted, by kind of socket.", kTransports)),
      closed_(counters(metrics, "weir_connections_closed_total", "Connections closed, by who ended them.", kEnds)) {}

Conns::~Conns() = default;

void Conns::use(std::shared_ptr<const TlsContext> tls, Cleartext tcp, std::shared_ptr<const TlsContext> for_nodes) {
  env_.tls = std::move(tls), env_.node_tls = std::move(for_nodes);
  env_.tcp_cleartext = tcp;
}

void Conns::adopt(Accepted accepted) {
  auto whose = env_.client(accepted.peer);
  if (!env_.unpunished(whose.get()) || !env_.admitted(env_.limit.enter(whose.get()))) return;
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
  env_.limit.leave(whose.get());
}

// A shard without connections has no timer and sleeps.
Conn& Conns::keep(Accepted accepted, base::ClientRef client) {
  if (sweep_.timer == base::TimerId::kNone) wake(sweep_, env_.shard.now() + std::chrono::seconds(1), &Conns::sweep);
  conns_.push_back(std::make_unique<Conn>(*this, env_, std::move(accepted), std::move(client)));
  conns_.back()->slot = uint32_t(conns_.size() - 1);
  return *conns_.back();
}

void Conns::leave(Conn& conn, ClosedBy by) {
  closed_[size_t(by)]->add();
  open_.add(-1);
  auto gone = base::take_out(conns_, conn, &Conn::slot);
  for (Walk* walk : {&sweep_, &drain_}) walk->left = std::min(walk->left, conns_.size());
  env_.limit.leave(gone->client());
  env_.shard.retire(std::move(gone));
  if (conns_.empty()) emptied_();
}

void Conns::wake(Walk& walk, base::Time when, void (Conns::*then)()) {
  walk.timer = env_.shard.at(when, [this, &walk, then] {
    walk.timer = base::TimerId::kNone;
    (this->*then)();
  });
}

template <class Visit>
void Conns::go_on(Walk& walk, Visit visit) {
  for (bool more = true; more && walk.left > 0; more = !env_.shard.work_done()) visit(*conns_[--walk.left]);
}

void Conns::sweep() {
  auto now = env_.shard.now();
  if (sweep_.left == 0) sweep_.left = conns_.size(), swept_from_ = now;
  go_on(sweep_, [now](Conn& conn) { conn.tick(now); });
  if (conns_.empty()) return;
  wake(sweep_, sweep_.left > 0 ? now + base::Duration(1) : swept_from_ + std::chrono::seconds(1), &Conns::sweep);
}

// Connections that get their codec meanwhile get the step from ConnEnv, and perhaps once more from here.
void Conns::drain(wire::Drain step) {
  env_.draining = step;
  drain_.left = conns_.size();
  if (drain_.timer == base::TimerId::kNone) drain_some();
}

void Conns::drain_some() {
  go_on(drain_, [this](Conn& conn) { conn.drain(*env_.draining); });
  if (drain_.left > 0) wake(drain_, env_.shard.now() + base::Duration(1), &Conns::drain_some);
}

size_t Conns::close_some(ClosedBy by) {
  size_t busy = 0;
  for (bool more = true; more && !conns_.empty(); more = !env_.shard.turn_is_long()) {
    busy += conns_.back()->busy();
    conns_.back()->close(by);
  }
  if (!conns_.empty()) return busy;
  for (Walk* walk : {&sweep_, &drain_}) env_.shard.cancel(std::exchange(walk->timer, base::TimerId::kNone));
  return busy;
}

// Without a BodyMemory there is no order: all connections look whether they can read.
void Conns::resume_reading() {
  if (env_.codecs.bodies) return env_.codecs.bodies->slabs_freed();
  for (size_t i = conns_.size(); i-- > 0;) conns_[i]->resume();
}

}  // namespace weir::net
