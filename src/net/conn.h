// Conn: one connection: a Socket, a Codec and, where the first byte asks for it, a TlsSession between the two.
//
// Life: ConnInput finds the codec; then bytes are read at most once and written at most once per turn of the loop; the
// last output is followed by FIN, and what the peer still sends is discarded (Linger), so that a reset does not
// overtake an answer. Reading pauses while the codec does not want to. Used on its shard's thread only;
// owned by Conns until it closes, by the shard from then until nothing refers to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/env.h"
#include "net/conn_env.h"
#include "net/conn_input.h"
#include "net/conn_output.h"
#include "net/conn_wire.h"
#include "net/linger.h"
#include "net/socket.h"
#include "wire/codec.h"

namespace weir::net {

// The side that ended a connection, for the metrics.
enum class ClosedBy : uint8_t { kPeer, kServer, kIdle, kDrain, kError };

class Conn final : public ConnWire::Owner, private Socket::Owner {
 public:
  static constexpr size_t kFirstRead = 16 << 10;
  static constexpr uint8_t kReadsOfLarge = 1;  // wider_reads_ of a peer that sends large bodies: 64 KiB

  class Owner {
   public:
    // The connection has closed: takes it off the list, and hands it to the shard.
    virtual void leave(Conn& conn, ClosedBy by) = 0;

   protected:
    ~Owner() = default;
  };

  Conn(Owner& owner, ConnEnv& env, Accepted accepted, base::ClientRef client);

  void begin() { socket_.await_read(); }
  void tick(base::Time now);
  void drain(wire::Drain step);
  void close(ClosedBy by);
  // The client whose connection it is counted as; null: nobody's.
  base::Client* client() const { return input_.peer().client.get(); }
  // Also Socket::Owner's.
  LoadClass load_class() const override { return env_.shard.load.load_class(client()); }
  // A request is open, or a part of an answer is not in the socket yet.
  bool busy() const;

  // ConnWire::Owner
  void flush() override;
  void release() override { input_.release(); }
  bool at_rest() const override { return socket_.at_rest() && !wire_.marked(); }
  // Looks again whether the codec wants to read.
  void resume() override;
  size_t undelivered() const override;

  uint32_t slot = 0;  // the Owner's: where it is kept

 private:
  enum class State : uint8_t { kOpen, kRefused, kLingering, kClosed };

  // Socket::Owner
  void on_readable() override;
  void on_writable() override { wire_.mark(); }
  void on_broken() override;

  template <class Work>
  void guarded(Work work);
  void begin_work() { env_.shard.worked_for = &input_.peer().client; }
  wire::Codec* serving() const { return state_ == State::kOpen ? input_.codec() : nullptr; }
  void read();
  std::span<std::byte> read_to();
  // `bytes` becomes what was read; what a connection that ends discards is not shown.
  Socket::Moved take_input(std::span<const std::byte>& bytes);
  void received(std::span<const std::byte> bytes);
  void peer_ended();
  void look_for_end();
  void write_and_settle();
  bool given_up(wire::Codec& codec) const;
  void settle();
  void finish();
  bool note_flood();

  // Beside slot, in 8 bytes.
  State state_ = State::kOpen;
  ClosedBy by_ = ClosedBy::kPeer;  // once that is known
  bool ended_ : 1 = false;         // the peer's FIN has been read
  bool closing_ : 1 = false;       // the peer has sent close_notify, and its FIN is awaited
  bool ending_ : 1 = false;        // nothing has been read since a tick() that knew of either
  bool gone_ : 1 = false;          // the codec took the peer for gone before its FIN was read
  bool notified_ : 1 = false;      // our close_notify is on its way
  uint8_t wider_reads_ = 0;        // the next read is of kFirstRead, and so many times four times as much
  Owner& owner_;
  ConnEnv& env_;
  Socket socket_;
  ConnWire wire_;
  ConnInput input_;
  ConnOutput output_;
  std::unique_ptr<Linger> linger_;  // null: State::kOpen
};

}  // namespace weir::net
