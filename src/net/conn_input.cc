#include "net/conn_input.h"

#include <string>
#include <utility>

#include "base/log.h"
#include "wire/limits.h"
#include "wire/tls_wanted.h"

namespace weir::net {

ConnInput::ConnInput(ConnEnv& env, wire::Wire& wire, Accepted&& accepted, base::ClientRef client)
    : env_(env),
      wire_(wire),
      peer_{.address = std::move(accepted.peer),
            .network = accepted.network,
            .admin = accepted.admin,
            .client = std::move(client)},
      since_(wire.now()),
      transport_(accepted.transport),
      listener_(accepted.listener) {
  if (for_nodes()) return;  // they come themselves, whatever proxies are near them
  peer_.proxy = env.trusts(peer_.address);
  if (!env.expects_header(peer_.address)) return;
  proxy_header_ = std::make_unique<wire::ProxyHeader>();
  state_ = State::kProxyHeader;
}

ConnInput::Outcome ConnInput::received(std::span<const std::byte> bytes) {
  if (state_ == State::kProxyHeader) {
    auto outcome = read_proxy_header(bytes);
    if (outcome != Outcome::kTaken || state_ == State::kProxyHeader || bytes.empty()) return outcome;
  }
  if (state_ == State::kFirstByte)
    if (auto outcome = choose(bytes.front()); outcome != Outcome::kTaken) return outcome;
  if (tls_) return open_records(bytes);
  feed(bytes);
  return Outcome::kTaken;
}

// The names in a node's certificate are not used as those of a client.
std::shared_ptr<const std::vector<std::string>> ConnInput::names_of_node() {
  static const auto kNames = std::make_shared<const std::vector<std::string>>(1, std::string(kShownByNode));
  return kNames;
}

// After the header, the client is the one that it names, or the proxy itself if it names none.
ConnInput::Outcome ConnInput::read_proxy_header(std::span<const std::byte>& bytes) {
  auto state = proxy_header_->feed(bytes);
  if (state == wire::ProxyHeader::State::kMore) return Outcome::kTaken;
  if (state == wire::ProxyHeader::State::kBad) {
    base::log::verbose("no PROXY header where one must be (http.proxy_protocol)", {{"peer", peer_.address}});
    return refuse(wire::reason::kProxy);
  }
  if (const std::string& address = proxy_header_->client(); !address.empty()) {
    auto named = env_.client(address);
    if (!env_.admitted(env_.limit.rename(peer_.client.get(), named.get()))) return refuse(wire::reason::kShare);
    peer_.address = address;
    peer_.client = std::move(named);
    peer_.proxy = env_.trusts(address);
  }
  proxy_header_.reset();
  state_ = State::kFirstByte;
  return Outcome::kTaken;
}

ConnInput::Outcome ConnInput::choose(std::byte first) {
  if (wire::looks_like_tls(first)) {
    const auto& tls = for_nodes() ? env_.node_tls : env_.tls;
    if (!tls) return refuse(wire::reason::kTls);
    tls_ = std::make_unique<TlsSession>(*tls, tls_memory());
    peer_.security = wire::Security::kTls;
    state_ = State::kHandshake;
    since_ = wire_.now();
    return tls_->state() == TlsSession::State::kFailed ? refuse(wire::reason::kOverload) : Outcome::kTaken;
  }
  const bool refused = for_nodes() || (transport_ == Transport::kTcp && env_.tcp_cleartext == Cleartext::kRefused);
  serve(refused ? wire::make_tls_wanted(env_.codecs, wire_, peer_) : wire::make_sniff(env_.codecs, wire_, peer_));
  return Outcome::kTaken;
}

TlsSession::Memory ConnInput::tls_memory() const {
  const auto& codecs = env_.codecs;
  return {codecs.slabs.ledger(), {peer_.client.get(), {codecs.limits.client_share, 0}}};
}

void ConnInput::serve(std::unique_ptr<wire::Codec> codec) {
  state_ = State::kServing;
  codec_ = std::move(codec);
  if (env_.draining) codec_->drain(*env_.draining);
}

void ConnInput::feed(std::span<const std::byte> bytes) {
  codec_->feed(bytes);
  while (auto next = codec_->successor()) serve(std::move(next));
}

ConnInput::Outcome ConnInput::open_records(std::span<const std::byte> bytes) {
  auto& plain = env_.shard.plain_buffer;
  if (!plain) plain.reset(new std::byte[Shard::Parts::kReadBuffer]);
  tls_->feed(bytes);
  for (;;) {
    size_t n = tls_->open({plain.get(), Shard::Parts::kReadBuffer}, wire_.now());
    if (state_ == State::kHandshake && tls_->state() != TlsSession::State::kHandshake)
      if (auto outcome = serve_tls(); outcome != Outcome::kTaken) return outcome;
    if (n == 0) break;
    feed({plain.get(), n});
  }
  if (tls_->state() == TlsSession::State::kPeerClosed) return Outcome::kEnded;
  return tls_->state() == TlsSession::State::kFailed ? Outcome::kFailed : Outcome::kTaken;
}

ConnInput::Outcome ConnInput::serve_tls() {
  if (tls_->state() == TlsSession::State::kFailed) {
    base::log::verbose("TLS handshake failed", {{"peer", peer_.address}, {"reason", tls_->error()}});
    // The alert is what is left to be written.
    return refuse(tls_->alpn_refused() ? wire::reason::kAlpn : wire::reason::kTls);
  }
  peer_.certificate_names = for_nodes() ? names_of_node() : tls_->peer_names();
  auto protocol = tls_->alpn();
  if (protocol == "h2")
    serve(wire::make_h2(env_.codecs, wire_, peer_));
  else if (protocol == "http/1.1")
    serve(wire::make_h1(env_.codecs, wire_, peer_));
  else
    serve(wire::make_sniff(env_.codecs, wire_, peer_));
  return Outcome::kTaken;
}

ConnInput::Outcome ConnInput::refuse(std::string_view reason) const {
  env_.codecs.intake.rejected(reason, peer_);
  return Outcome::kRefused;
}

bool ConnInput::overdue(base::Time now) const {
  if (state_ == State::kServing) return false;
  if (state_ != State::kHandshake) return now - since_ > env_.codecs.limits.sniff;
  if (now - since_ <= kHandshakeTime) return false;
  env_.codecs.intake.rejected(wire::reason::kTls, peer_);
  return true;
}

void ConnInput::release() {
  codec_.reset();
  tls_.reset();
}

}  // namespace weir::net
