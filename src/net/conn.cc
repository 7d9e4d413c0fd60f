#include "net/conn.h"

#include <algorithm>
#include <utility>

#include "base/attempt.h"

namespace weir::net {

// With the allocator's next class 8,000 idle connections cost half a MiB more.
static_assert(sizeof(Conn) <= 320);

Conn::Conn(Owner& owner, ConnEnv& env, Accepted accepted, base::ClientRef client)
    : owner_(owner),
      env_(env),
      socket_(env.shard, std::move(accepted.fd), *this),
      wire_(env.shard, *this),
      input_(env, wire_, std::move(accepted), std::move(client)),
      output_(socket_, wire_, env.bytes_out) {}

// A border: what the allocator, or a library under a codec or a service, throws ends this connection and no other.
template <class Work>
void Conn::guarded(Work work) {
  if (!base::attempt("a connection", work).ok()) close(ClosedBy::kError);
}

// One read; the next one is asked for at the end of the turn, when this one's output has been written.
void Conn::on_readable() {
  begin_work();
  guarded([this] { read(); });
}

// Where both sides have sent their FINs the socket is broken as well: one that lingers is still read to its end, which
// also tells of a reset. Closed before that, it would reset what the peer has not got yet.
void Conn::on_broken() {
  if (state_ != State::kLingering) close(ClosedBy::kPeer);
}

void Conn::read() {
  auto& shard = env_.shard;
  shard.now();
  ending_ = false;
  std::span<const std::byte> bytes;
  auto moved = take_input(bytes);
  env_.bytes_in.add(moved.n);
  switch (moved.fate) {
    case Socket::Fate::kNone: break;
    case Socket::Fate::kEof: peer_ended(); break;
    case Socket::Fate::kError: return close(ClosedBy::kPeer);
    case Socket::Fate::kSome: received(bytes);
  }
  wire_.mark();
}

// The buffer of the next read: the codec's receive_buffer(), if that is large, and else the shard's. A peer that sends
// much is read in larger pieces, unless its bodies are large: body bytes that are read together with a head are copied,
// so they should be few.
std::span<std::byte> Conn::read_to() {
  auto& shard = env_.shard;
  if (auto* codec = input_.tls() ? nullptr : serving()) {
    const auto buffer = codec->receive_buffer();
    if (buffer.size() > Shard::Parts::kReadBuffer) wider_reads_ = kReadsOfLarge;
    if (buffer.size() >= kFirstRead) return buffer.first(std::min(buffer.size(), Shard::Parts::kReadBuffer));
  }
  return {shard.read_buffer.get(), kFirstRead << 2 * wider_reads_};
}

// Bytes behind an answer that ends the connection are nobody's: they are neither copied nor counted as work of this
// turn, so that ending floods costs less than sending them.
Socket::Moved Conn::take_input(std::span<const std::byte>& bytes) {
  auto& shard = env_.shard;
  if (state_ != State::kOpen) {
    auto dropped = socket_.discard({shard.read_buffer.get(), Shard::Parts::kReadBuffer});
    if (dropped.n > 0) linger_->took(dropped.n, wire_.now());
    return dropped;
  }
  const auto to = read_to();
  auto moved = socket_.read(to);
  bytes = to.first(moved.n);
  shard.turn_bytes += moved.n;
  if (moved.n == to.size() && to.data() == shard.read_buffer.get() && to.size() < Shard::Parts::kReadBuffer)
    ++wider_reads_;
  return moved;
}

// A codec takes all that one read has opened, requests that wait for others included. So the end behind an open request
// is the FIN, as in cleartext: it mostly comes with close_notify, and is read once the codec wants to read.
void Conn::received(std::span<const std::byte> bytes) {
  if (state_ != State::kOpen) return;  // lingering: discarded
  switch (input_.received(bytes)) {
    case ConnInput::Outcome::kTaken: return;
    case ConnInput::Outcome::kEnded:
      if (const auto* codec = serving(); !codec || codec->idle() || closing_) return peer_ended();
      closing_ = true;
      return;
    case ConnInput::Outcome::kFailed: return close(ClosedBy::kError);
    case ConnInput::Outcome::kRefused:
      linger_ = std::make_unique<Linger>(wire_.now(), Linger::For::kMoment);
      state_ = State::kRefused;
  }
}

void Conn::peer_ended() {
  if (ended_) return;
  ended_ = true;
  if (auto* codec = serving()) codec->eof();
}

// A FIN behind bytes that the codec has no room for means the same as one that is read, as nginx and Envoy take it:
// mostly the peer has gone. It counts from the second tick() on, so that a codec that pauses for a moment reads what is
// in front of it. So does a close_notify without a FIN.
void Conn::look_for_end() {
  const bool unread = socket_.ended() && !socket_.reading();
  if (!(unread || closing_) || ended_ || gone_ || socket_.writing()) return;
  if (!ending_) return void(ending_ = true);
  gone_ = true;
  begin_work();
  guarded([this] {
    if (auto* codec = serving()) codec->eof();
    wire_.mark();
  });
}

void Conn::flush() {
  const bool tick = wire_.begin_flush();
  if (state_ == State::kClosed) return;
  begin_work();
  guarded([this, tick] {
    if (auto* codec = tick ? serving() : nullptr) codec->tick(wire_.now());
    write_and_settle();
  });
}

void Conn::write_and_settle() {
  auto* codec = serving();
  switch (output_.write(codec, input_.tls())) {
    case ConnOutput::Written::kAll: return settle();
    case ConnOutput::Written::kFailed: return close(ClosedBy::kPeer);
    // While the peer does not take our output, its input is still read: the codec says when to stop.
    case ConnOutput::Written::kNotYet:
      if (!codec) return;
      if (given_up(*codec)) return close(ClosedBy::kServer);
      ended_ || !codec->wants_read() ? socket_.await_error() : socket_.await_read();
  }
}

// The socket is full, and the codec has thrown away what it had for a peer that does not read: that socket will never
// be ready for a polite end. Sealed bytes are not thrown away: the codec may have ended with all that it had to say.
bool Conn::given_up(wire::Codec& codec) const {
  iovec piece;
  const auto* tls = input_.tls();
  return socket_.writing() && (!tls || tls->output().empty()) && codec.finished() && codec.pending({&piece, 1}) == 0;
}

// All output is written. Go on reading, wait, or end.
void Conn::settle() {
  if (const auto* codec = serving()) {
    const bool idle_is_over = ended_ || closing_ || env_.draining == wire::Drain::kRefuse;
    const bool over = codec->finished() || (idle_is_over && codec->idle());
    if (over) return finish();
    if (ended_ || !codec->wants_read()) return socket_.await_error();
  } else if (state_ == State::kRefused) {
    return finish();
  } else if (ended_) {
    return close(by_);
  }
  socket_.await_read();
}

// FIN, and then until the peer's FIN, within bounds, whatever it still sends is thrown away.
void Conn::finish() {
  if (auto* tls = input_.tls(); tls && !notified_) {
    notified_ = true;
    tls->finish();
    auto written = output_.write(serving(), tls);
    if (written == ConnOutput::Written::kFailed) return close(ClosedBy::kPeer);
    if (written == ConnOutput::Written::kNotYet) return;
  }
  if (ended_) return close(ClosedBy::kPeer);
  const bool brief = note_flood() || state_ == State::kRefused || env_.draining;
  linger_ = std::make_unique<Linger>(wire_.now(), brief ? Linger::For::kMoment : Linger::For::kRequest);
  by_ = gone_ || closing_ ? ClosedBy::kPeer : env_.draining ? ClosedBy::kDrain : ClosedBy::kServer;
  socket_.shut_write();
  state_ = State::kLingering;
  socket_.await_read();
}

// Once: an open connection lingers or closes next. True: it ends for a flood.
bool Conn::note_flood() {
  const auto* codec = serving();
  if (!codec || !codec->flooded()) return false;
  env_.note_flood(input_.peer());
  return true;
}

void Conn::tick(base::Time now) {
  if (state_ == State::kClosed) return;
  if (state_ != State::kOpen) {
    if (!linger_->goes_on(now, env_.codecs.limits)) close(by_);
    return;
  }
  if (input_.overdue(now)) return close(ClosedBy::kIdle);
  if (auto* tls = serving() ? input_.tls() : nullptr) {
    tls->rest();
    const size_t undelivered = tls->output().empty() ? 0 : socket_.undelivered();  // a system call: not for idle ones
    if (!tls->peer_keeps_up(now, undelivered, env_.codecs.limits)) {
      env_.codecs.intake.rejected(wire::reason::kSlowRead, input_.peer());
      return close(ClosedBy::kServer);
    }
  }
  look_for_end();
  resume();
}

// For the codec, sealed output has been consumed.
size_t Conn::undelivered() const {
  const auto* tls = input_.tls();
  return socket_.undelivered() + (tls ? tls->output().size() : 0);
}

void Conn::resume() {
  auto* codec = serving();
  if (!codec) return;
  begin_work();
  guarded([this, codec] {
    codec->tick(wire_.now());
    // A peer that is not read from, or whose request is all there, may have gone.
    if (!socket_.reading()) socket_.await_error();
    wire_.mark();
  });
}

void Conn::drain(wire::Drain step) {
  if (linger_) linger_->cut_short();
  if (state_ != State::kOpen) return;
  if (auto* codec = serving()) {
    codec->drain(step);
    wire_.mark();
  } else if (step == wire::Drain::kRefuse) {
    close(ClosedBy::kDrain);
  }
}

bool Conn::busy() const {
  const auto* codec = serving();
  return codec && (!codec->idle() || socket_.writing());
}

void Conn::close(ClosedBy by) {
  if (state_ == State::kClosed) return;
  note_flood();
  state_ = State::kClosed;
  wire_.close();
  if (auto* codec = input_.codec()) (void)base::attempt("a connection's end", [&] { codec->closed(); });
  socket_.close();
  owner_.leave(*this, by);
}

}  // namespace weir::net
