// Codec: one connection's protocol, without I/O. Bytes in, Exchanges out, bytes back.
//
// net::Conn owns one and drives it: feed() what was read, write what pending() shows, tick() about once a second. A
// codec never reads a clock or touches a socket. Sniff (wire/sniff.h) is the first codec of a cleartext connection and
// turns into H1 or H2 when the first bytes have decided.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include <sys/uio.h>

#include "base/env.h"
#include "wire/exchange.h"
#include "wire/limits.h"

namespace weir::wire {

// The services that a codec needs from its connection.
class Wire {
 public:
  // There may be output now, though nobody is feeding: flush at the end of this turn.
  virtual void output_ready() = 0;
  // The codec wants its tick() at the end of this turn, in the order of these calls.
  virtual void tick_soon() { output_ready(); }
  // The codec has work left over from this turn: it wants its tick() in the next one.
  virtual void tick_next_turn() { output_ready(); }
  virtual base::Time now() const = 0;
  // Bytes of output that the socket has taken, and the peer has not yet; 0 where the socket cannot tell. A system call.
  virtual size_t undelivered() const { return 0; }

 protected:
  ~Wire() = default;
};

class BodyMemory;
class BodyStarts;
class HttpDate;

// All that codecs of one server share. Lives longer than every codec.
struct CodecEnv {
  Intake& intake;
  base::SlabSource& slabs;  // request bodies and messages land here
  const Limits& limits;
  // The codecs put it into every response but gRPC's, so services do not. Null: a server without a clock.
  HttpDate* date = nullptr;
  // Schedules the slabs of this shard. Null: bodies wait without a time limit and in no order, and none loses its
  // memory.
  BodyMemory* bodies = nullptr;
  // Null: no proxy is trusted to name its clients.
  const TrustedProxies* proxies = nullptr;
  // Keeps the first bytes of bodies (console.bodies). Null: nothing is kept.
  BodyStarts* starts = nullptr;
};

enum class Drain : uint8_t {
  kAnnounce,  // tell the peer: HTTP/2 GOAWAY(2^31-1), HTTP/1 `Connection: close` on what follows
  kRefuse,    // take no new request: HTTP/2 GOAWAY(last)
};

class Codec {
 public:
  virtual ~Codec() = default;

  // Bytes from the peer, in order. Takes all of them.
  virtual void feed(std::span<const std::byte> bytes) = 0;
  // Where to read the next bytes from the peer, to save a copy: the rest of a large body's slab. Bytes that are read to
  // its beginning and then given to feed() from there are not copied. Almost always empty: then read to anywhere. Valid
  // until the codec is called again.
  virtual std::span<std::byte> receive_buffer() { return {}; }
  // The peer has closed its side (FIN): mostly it has gone. What has been answered is still sent, the rest is
  // cancelled.
  virtual void eof() = 0;
  // The socket is gone: every open Exchange ends. Nothing is pending afterwards.
  virtual void closed() = 0;

  // Up to `out.size()` pieces of output, in order; returns how many it filled. Stable until consumed() or feed().
  virtual size_t pending(std::span<iovec> out) = 0;
  // The socket took the first `n` bytes of what pending() showed. May let ExchangeListeners know of room (on_drain) and
  // of finished Exchanges (on_close).
  virtual void consumed(size_t n) = 0;

  // False while the codec holds the peer back (no slab, too much pipelined, too much backlog): stop reading. To be
  // asked again after feed(), consumed(), tick() and output_ready().
  virtual bool wants_read() const = 0;
  // True when the connection should be closed once pending() is empty: shut down the sending side, then read and
  // discard for about a second or until the peer closes, so that a reset does not overtake the last answer.
  virtual bool finished() const = 0;
  // No Exchange is open: the connection may be closed by the idle timeout or the drain.
  virtual bool idle() const = 0;

  // Called about once a second, and when Wire::tick_soon() or tick_next_turn() asked for it: time limits and rates are
  // enforced here.
  virtual void tick(base::Time now) = 0;
  virtual void drain(Drain step) = 0;
  // A codec to go on with instead of this one (after sniffing, or a protocol upgrade); null almost always.
  virtual std::unique_ptr<Codec> successor() { return nullptr; }
  // The connection ends because its peer caused more work than requests are worth: a flood of frames, of resets.
  virtual bool flooded() const { return false; }
  // For the metrics: "sniff", "h1", "h2", "baidu_std".
  virtual std::string_view protocol() const = 0;
};

// wire/h1_session.cc, wire/h2_session.cc, wire/sniff.cc. `wire` and `peer` belong to the connection; `env`, too, is
// borrowed for as long as the codec lives, one for all connections of a shard.
std::unique_ptr<Codec> make_h1(const CodecEnv& env, Wire& wire, const PeerInfo& peer);
std::unique_ptr<Codec> make_h1(CodecEnv&& env, Wire& wire, const PeerInfo& peer) = delete;
std::unique_ptr<Codec> make_h2(const CodecEnv& env, Wire& wire, const PeerInfo& peer);
std::unique_ptr<Codec> make_h2(CodecEnv&& env, Wire& wire, const PeerInfo& peer) = delete;
// wire/baidu_std_session.cc.
std::unique_ptr<Codec> make_baidu_std(const CodecEnv& env, Wire& wire, const PeerInfo& peer);
std::unique_ptr<Codec> make_baidu_std(CodecEnv&& env, Wire& wire, const PeerInfo& peer) = delete;
// Decides by the first bytes between the three.
std::unique_ptr<Codec> make_sniff(const CodecEnv& env, Wire& wire, const PeerInfo& peer);
std::unique_ptr<Codec> make_sniff(CodecEnv&& env, Wire& wire, const PeerInfo& peer) = delete;

// The first byte of a TLS record that opens a handshake. Decided before any codec exists.
inline bool looks_like_tls(std::byte first) { return first == std::byte{0x16}; }

}  // namespace weir::wire
