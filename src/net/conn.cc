#include "net/conn.h"

#include <array>
#include <utility>

#include "base/attempt.h"
#include "base/log.h"
#include "net/conns.h"
#include "wire/tls_wanted.h"

namespace weir::net {
namespace {

size_t cut_to(std::span<iovec> pieces, size_t budget, size_t& count) {
  size_t total = 0;
  for (size_t i = 0; i < count; ++i) {
    if (total + pieces[i].iov_len >= budget) {
      pieces[i].iov_len = budget - total;
      count = i + 1;
      return budget;
    }
    total += pieces[i].iov_len;
  }
  return total;
}

}  // namespace

Conn::Conn(Conns& home, Accepted accepted, base::ClientRef client)
    : home_(home),
      shard_(home.shard_.parts()),
      socket_(shard_, std::move(accepted.fd), *this),
      peer_{std::move(accepted.peer), wire::Security::kCleartext,
            std::move(client),        false,
            accepted.network,         accepted.admin},
      since_(shard_.now()),
      transport_(accepted.transport) {
  peer_.proxy = home.codecs_.proxies && home.codecs_.proxies->trusts(peer_.address);
  if (!home.proxied_ || !home.proxied_->has_peer(peer_.address)) return;
  proxy_header_ = std::make_unique<wire::ProxyHeader>();
  state_ = State::kProxyHeader;
}

base::Time Conn::now() const { return shard_.now(); }

void Conn::mark() {
  if (marked_ || state_ == State::kClosed) return;
  marked_ = true;
  shard_.mark(*this);
}

void Conn::mark_for_next_turn() {
  if (marked_) return;
  marked_ = true;
  shard_.mark_for_next_turn(*this);
}

// One read; the next one is asked for at the end of the turn, when this one's output has been written.
void Conn::on_readable() {
  guarded([this] { read(); });
}

// A border: what the allocator, or a library under a codec or a service, throws ends this connection and no other.
template <class Work>
void Conn::guarded(Work work) {
  if (!base::attempt("a connection", work).ok()) close(ClosedBy::kError);
}

void Conn::read() {
  shard_.now();
  auto moved = socket_.read({shard_.read_buffer.get(), Shard::Parts::kReadBuffer});
  shard_.turn_bytes += moved.n;
  home_.bytes_in_.add(moved.n);
  switch (moved.fate) {
    case Socket::Fate::kNone: break;
    case Socket::Fate::kEof: peer_ended(); break;
    case Socket::Fate::kError: return close(ClosedBy::kPeer);
    case Socket::Fate::kSome: received({shard_.read_buffer.get(), moved.n});
  }
  mark();
}

void Conn::received(std::span<const std::byte> bytes) {
  if (state_ == State::kProxyHeader && !read_proxy_header(bytes)) return;
  if (state_ == State::kFirstByte && !choose(bytes.front())) return;
  if (state_ > State::kServing) return;  // lingering: discarded
  if (tls_)
    received_tls(bytes);
  else
    feed(bytes);
}

// False: nothing is left of the bytes, or of the connection. From here on the client is who the header names; where it
// names nobody, the proxy itself.
bool Conn::read_proxy_header(std::span<const std::byte>& bytes) {
  auto state = proxy_header_->feed(bytes);
  if (state == wire::ProxyHeader::State::kMore) return false;
  if (state == wire::ProxyHeader::State::kBad) {
    base::log::verbose("no PROXY header where one must be (http.proxy_protocol)", {{"peer", peer_.address}});
    return refuse(wire::reason::kProxy), false;
  }
  if (const std::string& address = proxy_header_->client(); !address.empty()) {
    auto named = home_.client(address);
    if (!home_.admitted(home_.connection_limit_.rename(peer_.client.get(), named.get())))
      return refuse(wire::reason::kShare), false;
    peer_.address = address;
    peer_.client = std::move(named);
    peer_.proxy = home_.codecs_.proxies && home_.codecs_.proxies->trusts(address);
  }
  proxy_header_.reset();
  state_ = State::kFirstByte;
  return !bytes.empty();
}

bool Conn::choose(std::byte first) {
  if (wire::looks_like_tls(first)) {
    if (!home_.tls_) {
      refuse(wire::reason::kTls);
      return false;
    }
    tls_ = std::make_unique<TlsSession>(*home_.tls_);
    peer_.security = wire::Security::kTls;
    state_ = State::kHandshake;
    since_ = now();
    return true;
  }
  bool refused = transport_ == Transport::kTcp && home_.tcp_cleartext_ == Conns::Cleartext::kRefused;
  serve(refused ? wire::make_tls_wanted(home_.codecs_, *this, peer_) : wire::make_sniff(home_.codecs_, *this, peer_));
  return true;
}

void Conn::serve(std::unique_ptr<wire::Codec> codec) {
  state_ = State::kServing;
  codec_ = std::move(codec);
  if (home_.draining_) codec_->drain(*home_.draining_);
}

void Conn::feed(std::span<const std::byte> bytes) {
  codec_->feed(bytes);
  while (auto next = codec_->successor()) serve(std::move(next));
}

void Conn::received_tls(std::span<const std::byte> bytes) {
  auto& plain = shard_.plain_buffer;
  if (!plain) plain.reset(new std::byte[Shard::Parts::kReadBuffer]);
  tls_->feed(bytes);
  for (;;) {
    size_t n = tls_->open({plain.get(), Shard::Parts::kReadBuffer}, now());
    if (state_ == State::kHandshake && tls_->state() != TlsSession::State::kHandshake && !serve_tls()) return;
    if (n == 0) break;
    feed({plain.get(), n});
  }
  if (tls_->state() == TlsSession::State::kPeerClosed) peer_ended();
  if (tls_->state() == TlsSession::State::kFailed) close(ClosedBy::kError);
}

// The handshake is over: ALPN decides, and where the client does not speak it, the first bytes do.
bool Conn::serve_tls() {
  if (tls_->state() == TlsSession::State::kFailed) {
    base::log::verbose("TLS handshake failed", {{"peer", peer_.address}, {"reason", tls_->error()}});
    // The alert is what is left to be written.
    refuse(tls_->alpn_refused() ? wire::reason::kAlpn : wire::reason::kTls);
    return false;
  }
  peer_.certificate_names = tls_->peer_names();
  auto protocol = tls_->alpn();
  if (protocol == "h2")
    serve(wire::make_h2(home_.codecs_, *this, peer_));
  else if (protocol == "http/1.1")
    serve(wire::make_h1(home_.codecs_, *this, peer_));
  else
    serve(wire::make_sniff(home_.codecs_, *this, peer_));
  return true;
}

void Conn::refuse(std::string_view reason) {
  home_.codecs_.intake.rejected(reason, peer_);
  state_ = State::kLastWords;
  since_ = now();
}

void Conn::peer_ended() {
  if (ended_) return;
  ended_ = true;
  if (state_ == State::kServing) codec_->eof();
}

void Conn::flush() {
  marked_ = false;
  if (state_ == State::kClosed) return;
  guarded([this] {
    if (std::exchange(tick_wanted_, false) && state_ == State::kServing) codec_->tick(now());
    write_and_settle();
  });
}

void Conn::write_and_settle() {
  switch (write()) {
    case Written::kAll: return settle();
    case Written::kFailed: return close(ClosedBy::kPeer);
    // While the peer does not take our output, its input is still read: the codec says when to stop.
    case Written::kNotYet:
      if (given_up()) return close(ClosedBy::kServer);
      if (state_ == State::kServing && !ended_ && codec_->wants_read()) socket_.await_read();
  }
}

// The socket is full, and the codec has thrown away what it had for a peer that does not read: that socket will never
// be ready for a polite end. Sealed bytes are not thrown away: the codec may have ended with all that it had to say.
bool Conn::given_up() {
  iovec piece;
  return state_ == State::kServing && socket_.writing() && (!tls_ || tls_->output().empty()) && codec_->finished() &&
         codec_->pending({&piece, 1}) == 0;
}

// Whether the peer takes sealed bytes fast enough; where not, it is cut off as the codecs cut it off.
bool Conn::takes_sealed(base::Time now) {
  const wire::Limits& limits = home_.codecs_.limits;
  if (tls_->output().empty()) {
    sealed_floor_.stop();
    return true;
  }
  sealed_floor_.start(now);
  return !sealed_floor_.below(now, limits.min_drain_rate, limits.grace);
}

Conn::Written Conn::write() {
  if (socket_.writing()) return Written::kNotYet;
  if (tls_) return write_tls();
  return state_ == State::kServing ? write_plain() : Written::kAll;
}

Conn::Written Conn::write_plain() {
  std::array<iovec, kPieces> pieces;
  for (size_t budget = kWritePerTurn; budget != 0;) {
    size_t count = codec_->pending(pieces);
    if (count == 0) return Written::kAll;
    bool whole = count < kPieces;
    size_t offered = cut_to(pieces, budget, count);
    auto moved = socket_.write({pieces.data(), count});
    if (moved.fate == Socket::Fate::kError) return Written::kFailed;
    if (moved.n != 0) codec_->consumed(moved.n);
    if (!sent(moved, offered)) return Written::kNotYet;
    budget -= offered;
    // Output that consumed() has caused since then marks this connection for the next round.
    if (whole && budget != 0) return marked_ ? Written::kNotYet : Written::kAll;
  }
  mark_for_next_turn();
  return Written::kNotYet;
}

// Sealed bytes are OpenSSL's and cannot be taken back: they count as consumed, and no more are sealed until they have
// gone.
Conn::Written Conn::write_tls() {
  std::array<iovec, kPieces> pieces;
  for (size_t budget = kWritePerTurn; budget != 0;) {
    auto sealed = tls_->output();
    if (sealed.empty()) {
      size_t count = state_ == State::kServing ? codec_->pending(pieces) : 0;
      if (count == 0) return Written::kAll;
      size_t taken = tls_->seal({pieces.data(), count});
      if (taken == 0) return Written::kFailed;
      codec_->consumed(taken);
      continue;
    }
    iovec piece{const_cast<std::byte*>(sealed.data()), std::min(sealed.size(), budget)};
    auto moved = socket_.write({&piece, 1});
    if (moved.fate == Socket::Fate::kError) return Written::kFailed;
    tls_->consumed(moved.n);
    if (!sent(moved, piece.iov_len)) return Written::kNotYet;
    budget -= piece.iov_len;
  }
  mark_for_next_turn();
  return Written::kNotYet;
}

// False: the socket is full.
bool Conn::sent(Socket::Moved moved, size_t offered) {
  home_.bytes_out_.add(moved.n);
  sealed_floor_.add(moved.n);
  if (moved.n == offered) return true;
  socket_.await_write();
  return false;
}

// All output is written. Go on reading, wait, or end.
void Conn::settle() {
  if (state_ == State::kServing) {
    bool over =
        codec_->finished() || (ended_ && codec_->idle()) || (home_.draining_ == wire::Drain::kRefuse && codec_->idle());
    if (over) return finish();
    if (ended_ || !codec_->wants_read()) return;
  } else if (state_ == State::kLastWords) {
    return finish();
  } else if (ended_) {
    return close(by_);
  }
  socket_.await_read();
}

// FIN, and then until the peer's FIN or for a moment whatever it still sends is thrown away.
void Conn::finish() {
  if (tls_ && !notified_) {
    notified_ = true;
    tls_->finish();
    auto written = write_tls();
    if (written == Written::kFailed) return close(ClosedBy::kPeer);
    if (written == Written::kNotYet) return;
  }
  if (ended_) return close(ClosedBy::kPeer);
  by_ = home_.draining_ ? ClosedBy::kDrain : ClosedBy::kServer;
  socket_.shut_write();
  state_ = State::kLingering;
  since_ = now();
  socket_.await_read();
}

void Conn::tick(base::Time now) {
  auto spent = now - since_;
  switch (state_) {
    case State::kProxyHeader:
    case State::kFirstByte:
      if (spent > home_.codecs_.limits.sniff) close(ClosedBy::kIdle);
      return;
    case State::kHandshake:
      if (spent <= kHandshakeTime) return;
      home_.codecs_.intake.rejected(wire::reason::kTls, peer_);
      return close(ClosedBy::kIdle);
    case State::kServing:
      if (tls_ && !takes_sealed(now)) {
        home_.codecs_.intake.rejected(wire::reason::kSlowRead, peer_);
        return close(ClosedBy::kServer);
      }
      if (tls_) tls_->trim();
      return resume();
    case State::kLastWords:
    case State::kLingering:
      if (spent > kLingerTime) close(by_);
      return;
    case State::kClosed: return;
  }
}

void Conn::resume() {
  if (state_ == State::kServing) guarded([this] { tick_codec(); });
}

void Conn::tick_codec() {
  codec_->tick(now());
  // A peer that is not read from, or whose request is all there, may have gone.
  if (!socket_.reading()) socket_.await_error();
  mark();
}

// The clock stands still within a turn: what is due later than now is not due in this one.
void Conn::tick_next_turn() {
  if (tick_timer_ != base::TimerId::kNone || state_ == State::kClosed) return;
  tick_timer_ = shard_.at(shard_.now() + base::Duration(1), [this] {
    tick_timer_ = base::TimerId::kNone;
    resume();
  });
}

void Conn::drain(wire::Drain step) {
  if (state_ == State::kServing) {
    codec_->drain(step);
    mark();
  } else if (step == wire::Drain::kRefuse && state_ < State::kServing) {
    close(ClosedBy::kDrain);
  }
}

bool Conn::busy() const { return state_ == State::kServing && (!codec_->idle() || socket_.writing()); }

void Conn::close(ClosedBy by) {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  shard_.cancel(std::exchange(tick_timer_, base::TimerId::kNone));
  if (codec_) codec_->closed();
  socket_.close();
  home_.leave(*this, by);
}

void Conn::release() {
  codec_.reset();
  tls_.reset();
}

}  // namespace weir::net
