// H2Session: an HTTP/2 server connection (RFC 9113) on libnghttp2, without I/O.
//
// libnghttp2 does frames, HPACK, stream states and HTTP messaging; the Guard does what it leaves open (reliability is
// in wire/guard.h). Inside the library's callbacks services may be called; what they say is kept in their Exchange and
// becomes frames in pending(), all streams together. Nobody is told that an Exchange is over from inside pending():
// that waits for the socket to take the bytes, or for the end of feed() and tick().
//
//   h2_feed.h          from what was read to the library
//   h2_receiver.h      from frames to Exchanges
//   h2_bodies.h        the bodies of requests
//   h2_sender.h        from Exchanges to frames and to the socket
//   h2_stream_table.h  the Exchanges from their first frame to their end
//   h2_callbacks.h     the library's session: options, settings, callbacks
//   here               feeding, time limits, drain, the end
#pragma once

#include <optional>
#include <string>

#include "base/stepped_charge.h"
#include "wire/codec.h"
#include "wire/frame_rules.h"
#include "wire/h2_bodies.h"
#include "wire/h2_callbacks.h"
#include "wire/h2_connection.h"
#include "wire/h2_feed.h"
#include "wire/h2_receiver.h"
#include "wire/h2_sender.h"
#include "wire/h2_stream_table.h"

namespace weir::wire {

class H2Session final : public Codec {
 public:
  H2Session(const CodecEnv& env, Wire& wire, const PeerInfo& peer);
  ~H2Session() override;

  void feed(std::span<const std::byte> bytes) override;
  std::span<std::byte> landing() override;
  void eof() override;
  void closed() override;
  size_t pending(std::span<iovec> out) override;
  void consumed(size_t n) override;
  bool wants_read() const override { return !connection_.dead && stash_.empty(); }
  bool finished() const override;
  bool idle() const override { return streams_.serving() == 0 && stash_.empty(); }
  void tick(base::Time now) override;
  void drain(Drain step) override;
  bool flooded() const override;
  std::string_view protocol() const override { return "h2"; }

 private:
  size_t digest(std::span<const std::byte> bytes);
  size_t admit(std::span<const std::byte> bytes);
  void receive(std::span<const std::byte> bytes, size_t until_head);
  void keep(std::span<const std::byte> bytes);
  bool digest_stash();
  void drop_stash();
  void cancel_unanswered();
  void die();
  void check_connection();
  void check_idle();
  void send_away();
  void fit_window();

  H2Connection connection_;
  H2StreamTable streams_;
  H2Bodies bodies_;
  H2Receiver receiver_;
  H2Sender sender_;
  H2Feed feed_;
  H2Parts parts_;  // for the library's callbacks
  FrameRules rules_;
  FrameWalker walker_;
  base::Time opened_;
  base::Time helped_ = base::kNever;  // the turn of the latest helping
  bool eof_ = false;                  // the peer sends no more
  std::optional<Drain> away_;         // the step that send_away() has taken last
  base::Time dead_at_ = base::kNever;
  base::Time inside_since_ = base::kNever;  // a head or a control frame is incomplete since then
  uint32_t window_ = 0;                     // the connection's receive window, as the peer knows it
  std::string stash_;                       // read, but beyond what one turn may start
  base::SteppedCharge stash_charge_;        // for its room
};

}  // namespace weir::wire
