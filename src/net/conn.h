// Conn: one connection: a Socket, a Codec and, where the first byte asks for it, a TlsSession between the two.
//
// Life: where its peer is a proxy that says so, a PROXY header names the client; the first byte decides between TLS and
// cleartext; then bytes are read at most once and written at most once per turn of the loop; the last output is
// followed by FIN, and what the peer still sends is discarded for a moment, so that a reset does not overtake an answer
// (RFC 9112 §9.6). Reading pauses while the codec does not want to. The codec watches whether the peer takes its
// output; what TLS has sealed, which the codec takes for gone, is watched here. Used on its shard's thread only; owned
// by Conns until it closes, by the shard from then until nothing refers to it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/env.h"
#include "net/socket.h"
#include "net/tls.h"
#include "wire/codec.h"
#include "wire/guard.h"
#include "wire/proxy_protocol.h"

namespace weir::net {

class Conns;

// The side that ended a connection, for the metrics.
enum class ClosedBy : uint8_t { kPeer, kServer, kIdle, kDrain, kError };

class Conn final : public Resident, private wire::Wire, private Socket::Owner {
 public:
  // Writes of one connection end here in each turn, so that an elephant leaves room for mice.
  static constexpr size_t kWritePerTurn = 512 << 10;
  static constexpr size_t kPieces = 64;  // per write
  static constexpr base::Duration kHandshakeTime = std::chrono::seconds(10);
  static constexpr base::Duration kLingerTime = std::chrono::seconds(2);

  Conn(Conns& home, Accepted accepted, base::ClientRef client);

  void begin() { socket_.await_read(); }
  void tick(base::Time now);
  // Looks again whether the codec wants to read.
  void resume();
  void drain(wire::Drain step);
  void close(ClosedBy by);
  // The client whose connection it is counted as; null: nobody's.
  base::Client* client() const { return peer_.client.get(); }
  // A request is open, or a part of an answer is not in the socket yet.
  bool busy() const;

  // Resident
  void flush() override;
  void release() override;
  bool at_rest() const override { return socket_.at_rest() && !marked_; }

  size_t slot = 0;  // Conns': where it is kept

 private:
  enum class State : uint8_t { kProxyHeader, kFirstByte, kHandshake, kServing, kLastWords, kLingering, kClosed };
  enum class Written : uint8_t { kAll, kNotYet, kFailed };

  // wire::Wire
  void output_ready() override { mark(); }
  void tick_soon() override {
    tick_wanted_ = true;
    mark();
  }
  void tick_next_turn() override;
  base::Time now() const override;
  // Socket::Owner
  void on_readable() override;
  void on_writable() override { mark(); }
  void on_broken() override { close(ClosedBy::kPeer); }

  template <class Work>
  void guarded(Work work);
  void read();
  void write_and_settle();
  void tick_codec();
  void mark();
  void mark_for_next_turn();
  void received(std::span<const std::byte> bytes);
  bool read_proxy_header(std::span<const std::byte>& bytes);
  bool choose(std::byte first);
  void received_tls(std::span<const std::byte> bytes);
  bool serve_tls();
  void serve(std::unique_ptr<wire::Codec> codec);
  void feed(std::span<const std::byte> bytes);
  void peer_ended();
  void refuse(std::string_view reason);
  bool given_up();
  bool takes_sealed(base::Time now);
  Written write();
  Written write_plain();
  Written write_tls();
  bool sent(Socket::Moved moved, size_t offered);
  void settle();
  void finish();

  Conns& home_;
  Shard::Parts& shard_;
  Socket socket_;
  wire::PeerInfo peer_;
  std::unique_ptr<wire::Codec> codec_;
  std::unique_ptr<TlsSession> tls_;
  std::unique_ptr<wire::ProxyHeader> proxy_header_;  // while it is awaited
  wire::RateFloor sealed_floor_;                     // under what is sealed and waits for the socket
  base::Time since_;                                 // of the state
  const Transport transport_;
  base::TimerId tick_timer_ = base::TimerId::kNone;
  State state_ = State::kFirstByte;
  ClosedBy by_ = ClosedBy::kPeer;  // who ends it, once that is known
  bool marked_ = false;
  bool tick_wanted_ = false;
  bool ended_ = false;     // the peer has sent FIN
  bool notified_ = false;  // our close_notify is on its way
};

}  // namespace weir::net
