#include "net/server.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "base/log.h"
#include "net/address.h"
#include "net/conns.h"
#include "net/descriptor_limit.h"
#include "net/drain.h"
#include "net/listener.h"
#include "net/shard_parts.h"
#include "net/watchdog.h"

namespace weir::net {
namespace {

constexpr base::Duration kStacksApart = std::chrono::minutes(1);

// A socket file that is ours as long as nobody has put another in its place.
struct SocketFile {
  std::string path;
  dev_t device = 0;
  ino_t inode = 0;
};

// The part that a listener gives to its connections.
struct Role {
  wire::AdminMethods admin;
  ListensFor whom;
};

struct Waiting {
  Fd fd;
  size_t shard;
  Transport transport;
  Role role;
};

struct Bound {
  std::string text;
  Role role;
};

// std::function wants to be copied; a descriptor does not.
struct Parcel {
  explicit Parcel(Accepted a) : accepted(std::make_shared<Accepted>(std::move(a))) {}
  std::shared_ptr<Accepted> accepted;
};

}  // namespace

struct Server::Parts {
  Parts(std::vector<Shard*> on, std::vector<wire::CodecEnv> envs, ServerOptions o, base::Metrics& m);
  ~Parts();

  // One shard's part of the server; touched on its thread.
  struct Share {
    Shard& shard;
    Conns conns;
    std::vector<std::unique_ptr<Listener>> listeners;
    base::Counter& starved;
    base::MemoryLedger* memory;         // or null
    std::atomic<bool> resuming{false};  // resume_reading() is on its way there
    bool ending = false;                // the Server goes: nothing more is posted
  };
  // Closing what is left at the drain's timeout, by all shards.
  struct Forced {
    std::function<void(size_t busy)> then;
    std::atomic<size_t> busy{0}, shards;
  };

  base::Status bind();
  base::Status bind_any(std::span<const Endpoint> endpoints, Role role);
  base::Status bind(const Endpoint& endpoint, Role role);
  base::Status bind_tcp(Endpoint endpoint, Role role);
  base::Status bind_unix(const Endpoint& endpoint, Role role);
  base::Status load_tls();
  void start();
  void listen(Waiting&& waiting);
  void close_listeners(Share& share);
  void everywhere(const std::function<void(Share&)>& work);
  void drain(std::function<void(bool)> done);
  void force(std::function<void(size_t)> then);
  void force_some(Share& share, std::shared_ptr<Forced> forced);
  void close_all(Share& share);
  void on_idle_shard();
  void unbind();
  void watch_turns();

  std::vector<std::unique_ptr<Share>> shares;
  ServerOptions options;
  base::Metrics& metrics;
  std::mutex loading;             // what is read last is used last
  base::Gauge* expiry = nullptr;  // from the first certificate on
  ConnectionLimit connection_limit;
  InheritedSockets inherited;
  std::vector<Waiting> waiting;  // bound, until start()
  std::vector<Bound> bound;
  std::vector<SocketFile> files;
  std::unique_ptr<Drain> draining;  // the first shard's
  std::atomic<bool> drain_asked{false};
  size_t next_shard = 0;  // for connections of unix sockets; the first shard's
  std::optional<Watchdog> watchdog;
};

Server::Parts::Parts(std::vector<Shard*> on, std::vector<wire::CodecEnv> envs, ServerOptions o, base::Metrics& m)
    : options(std::move(o)), metrics(m), connection_limit(within_descriptors(options.max_connections), options.share) {
  for (size_t i = 0; i < on.size(); ++i) {
    shares.push_back(std::unique_ptr<Share>(
        new Share{*on[i],
                  Conns(*on[i], envs[i], connection_limit, metrics, [this] { on_idle_shard(); }),
                  {},
                  metrics.counter("weir_accept_starved_total", "Connections closed for want of a file descriptor."),
                  envs[i].slabs.ledger()}));
    if (!options.proxy_protocol.empty()) shares.back()->conns.expect_proxies(options.proxy_protocol);
  }
  watch_turns();
}

void Server::Parts::watch_turns() {
  TurnWatch::AllTotals turns;
  std::vector<TurnWatch*> watches;
  for (auto& share : shares) {
    TurnWatch& watch = share->shard.parts().watch;
    watches.push_back(&watch);
    turns.push_back(watch.totals());
  }
  metrics.collect([turns](std::string& out) { TurnWatch::append(out, turns); });
  watchdog.emplace(std::move(watches), kStacksApart, Watchdog::log);
}

Server::Parts::~Parts() {
  watchdog.reset();
  shares.front()->shard.parts().run_and_wait([this] { draining.reset(); });
  for (auto& share : shares) {
    share->shard.parts().run_and_wait([&] {
      share->ending = true;
      close_listeners(*share);
    });
    close_all(*share);
  }
  // Work that the shards have posted to each other meanwhile names this object: it runs before this.
  for (auto& share : shares) close_all(*share);
  unbind();
}

// Not to be called on the thread of the share's shard, for which it waits.
void Server::Parts::close_all(Share& share) {
  for (bool more = true; more;)
    share.shard.parts().run_and_wait([&] {
      share.conns.close_some(ClosedBy::kServer);
      more = share.conns.size() > 0;
    });
}

base::Status Server::Parts::bind() {
  if (auto status = load_tls(); !status.ok()) return status;
  std::vector<std::string_view> texts;
  for (const auto& address : options.listen) texts.push_back(address.text);
  auto found = resolve_all(texts);
  if (!found) return found.error();
  const auto ours = [this](const Endpoint& endpoint) { return inherited.holds(endpoint); };
  if (auto status = check_free(*found, ours); !status.ok()) return status;
  for (size_t i = 0; i < found->size(); ++i)
    if (auto s = bind_any((*found)[i], Role{options.listen[i].admin, options.listen[i].whom}); !s.ok()) return s;
  inherited.end_rest();
  return {};
}

// The endpoints of one address.
base::Status Server::Parts::bind_any(std::span<const Endpoint> endpoints, Role role) {
  base::Status first;
  size_t good = 0;
  for (const auto& endpoint : endpoints) {
    auto status = bind(endpoint, role);
    good += status.ok();
    if (status.ok()) continue;
    // "localhost" may name an address of a family that this machine does not have.
    bool absent = status.details == std::to_string(EADDRNOTAVAIL) || status.details == std::to_string(EAFNOSUPPORT);
    if (!absent) return status;
    if (first.ok()) first = status;
  }
  return good == 0 ? first : base::Status();
}

base::Status Server::Parts::bind(const Endpoint& endpoint, Role role) {
  return endpoint.transport() == Transport::kUnix ? bind_unix(endpoint, role) : bind_tcp(endpoint, role);
}

base::Status Server::Parts::bind_tcp(Endpoint endpoint, Role role) {
  auto sockets = inherited.take(endpoint);
  const size_t given = sockets.size();
  while (sockets.size() < shares.size()) {
    auto fd = listen_beside(endpoint, given ? &sockets[sockets.size() % given] : nullptr);
    if (!fd) return fd.error();
    endpoint.set_port(local_endpoint(*fd).port());
    sockets.push_back(std::move(*fd));
  }
  for (size_t i = 0; i < sockets.size(); ++i)
    waiting.push_back({std::move(sockets[i]), i % shares.size(), Transport::kTcp, role});
  bound.push_back({endpoint.text(), role});
  return {};
}

base::Status Server::Parts::bind_unix(const Endpoint& endpoint, Role role) {
  auto given = inherited.take(endpoint);
  struct stat info {};
  // Without its file nobody finds a socket.
  const bool there = !given.empty() && ::lstat(endpoint.path().c_str(), &info) == 0;
  auto fd = there ? listen_again(endpoint, std::move(given.front())) : listen_at(endpoint, Sharing::kAlone);
  if (!fd) return fd.error();
  if (::lstat(endpoint.path().c_str(), &info) == 0) files.push_back({endpoint.path(), info.st_dev, info.st_ino});
  waiting.push_back({std::move(*fd), 0, Transport::kUnix, role});
  bound.push_back({endpoint.text(), role});
  return {};
}

base::Status Server::Parts::load_tls() {
  std::lock_guard lock(loading);
  std::shared_ptr<const TlsContext> context, for_nodes;
  for (auto [from, to] : {std::pair(&options.tls, &context), std::pair(&options.node_tls, &for_nodes)}) {
    if (from->certificate.empty()) continue;
    auto loaded = TlsContext::load(*from);
    if (!loaded) return loaded.error();
    *to = std::move(*loaded);
  }
  if (context && !expiry)
    expiry =
        &metrics.gauge("weir_tls_certificate_expiry_timestamp_seconds", "Unix time at which tls.certificate expires.");
  if (context) expiry->set(context->expires());
  auto cleartext = options.tls.refuses_cleartext() ? Cleartext::kRefused : Cleartext::kServed;
  everywhere([context, cleartext, for_nodes](Share& share) { share.conns.use(context, cleartext, for_nodes); });
  return {};
}

void Server::Parts::everywhere(const std::function<void(Share&)>& work) {
  for (auto& share : shares) share->shard.post([work, at = share.get()] { work(*at); });
}

void Server::Parts::start() {
  for (auto& one : waiting) listen(std::move(one));
  waiting.clear();
}

void Server::Parts::listen(Waiting&& waiting_one) {
  auto* share = shares[waiting_one.shard].get();
  Listener::Deliver deliver = [share, role = waiting_one.role](Accepted accepted) {
    accepted.admin = role.admin, accepted.listener = role.whom;
    share->conns.adopt(std::move(accepted));
  };
  // One socket takes a unix path's connections; they are dealt out round the shards.
  if (waiting_one.transport == Transport::kUnix && shares.size() > 1)
    deliver = [this, role = waiting_one.role](Accepted accepted) {
      accepted.admin = role.admin, accepted.listener = role.whom;
      auto* to = shares[next_shard++ % shares.size()].get();
      to->shard.post([to, parcel = Parcel(std::move(accepted))] { to->conns.adopt(std::move(*parcel.accepted)); });
    };
  auto fd = std::make_shared<Fd>(std::move(waiting_one.fd));
  share->shard.post([share, fd, deliver = std::move(deliver), transport = waiting_one.transport] {
    share->listeners.push_back(std::make_unique<Listener>(share->shard.parts(), std::move(*fd), transport, deliver,
                                                          share->starved, share->memory));
    share->listeners.back()->begin();
  });
}

void Server::Parts::close_listeners(Share& share) {
  for (auto& listener : share.listeners) {
    listener->stop();
    share.shard.parts().retire(std::move(listener));
  }
  share.listeners.clear();
}

void Server::Parts::drain(std::function<void(bool)> done) {
  if (drain_asked.exchange(true)) return;
  Drain::Steps steps;
  steps.announce = [this] {
    everywhere([this](Share& share) {
      close_listeners(share);
      share.conns.drain(wire::Drain::kAnnounce);
    });
  };
  steps.refuse = [this] { everywhere([](Share& share) { share.conns.drain(wire::Drain::kRefuse); }); };
  steps.force = [this](std::function<void(size_t)> then) { force(std::move(then)); };
  steps.connections = [this] { return connection_limit.now.load(); };
  steps.done = std::move(done);
  auto& first = shares.front()->shard;
  first.post([this, &first, steps = std::move(steps)] {
    draining = std::make_unique<Drain>(first.env(), options.drain_delay, options.drain_timeout, steps);
  });
}

void Server::Parts::force(std::function<void(size_t)> then) {
  auto forced = std::make_shared<Forced>();
  forced->then = std::move(then);
  forced->shards = shares.size();
  everywhere([this, forced](Share& share) { force_some(share, forced); });
}

void Server::Parts::force_some(Share& share, std::shared_ptr<Forced> forced) {
  if (share.ending) return;
  forced->busy += share.conns.close_some(ClosedBy::kDrain);
  if (share.conns.size() > 0) return share.shard.post([this, forced, to = &share] { force_some(*to, forced); });
  if (--forced->shards != 0) return;
  shares.front()->shard.post([this, forced] {
    if (draining) forced->then(forced->busy);
  });
}

// On the thread of any shard.
void Server::Parts::on_idle_shard() {
  if (!drain_asked.load(std::memory_order_relaxed)) return;
  shares.front()->shard.post([this] {
    if (draining) draining->on_idle_shard();
  });
}

void Server::Parts::unbind() {
  waiting.clear();
  bound.clear();
  for (const auto& file : files) {
    struct stat info {};
    if (::lstat(file.path.c_str(), &info) == 0 && info.st_dev == file.device && info.st_ino == file.inode)
      ::unlink(file.path.c_str());
  }
  files.clear();
}

Server::Server(std::vector<Shard*> shards, std::vector<wire::CodecEnv> envs, ServerOptions options,
               base::Metrics& metrics)
    : parts_(std::make_unique<Parts>(std::move(shards), std::move(envs), std::move(options), metrics)) {}

Server::~Server() = default;

base::Status Server::bind() {
  auto status = parts_->bind();
  if (!status.ok()) parts_->unbind();
  return status;
}

std::vector<std::string> Server::bound() const {
  std::vector<std::string> out;
  for (const auto& one : parts_->bound) out.push_back(one.text);
  return out;
}

std::vector<std::string> Server::bound(wire::AdminMethods admin) const {
  std::vector<std::string> out;
  for (const auto& one : parts_->bound)
    if (one.role.admin == admin && one.role.whom == ListensFor::kClients) out.push_back(one.text);
  return out;
}

std::vector<std::string> Server::bound(ListensFor whom) const {
  std::vector<std::string> out;
  for (const auto& one : parts_->bound)
    if (one.role.whom == whom) out.push_back(one.text);
  return out;
}

void Server::inherit(InheritedSockets sockets) { parts_->inherited = std::move(sockets); }

std::vector<int> Server::share_sockets() {
  parts_->files.clear();
  std::vector<int> out;
  for (const auto& one : parts_->waiting) out.push_back(one.fd.get());
  return out;
}

void Server::start() { parts_->start(); }

base::Status Server::reload_tls() { return parts_->load_tls(); }

void Server::resume_reading() {
  for (auto& share : parts_->shares) {
    if (share->resuming.exchange(true)) continue;
    share->shard.post([to = share.get()] {
      to->resuming.store(false);
      to->conns.resume_reading();
    });
  }
}

void Server::drain(std::function<void(bool)> done) { parts_->drain(std::move(done)); }
size_t Server::max_connections() const { return parts_->connection_limit.most; }
size_t Server::connections() const { return parts_->connection_limit.now.load(); }

}  // namespace weir::net
