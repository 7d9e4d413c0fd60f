// H2Session: an HTTP/2 server connection (RFC 9113), without I/O. Of libnghttp2 it has header blocks (HPACK) alone.
//
// Inside of what handles frames services may be called; what they say is kept in their Exchange and becomes frames in
// pending(), all streams together. Nobody is told that an Exchange is over from inside pending(): that waits for the
// socket to take the bytes, or for the end of feed() and tick(). What a peer may cost is the Guard's (wire/guard.h).
//
//   h2_frame_reader.h  from what was read to frames
//   h2_receiver.h      what the frames of a client do
//   h2_heads.h         from header blocks to Exchanges
//   h2_bodies.h        the bodies of requests
//   h2_settings.h      SETTINGS, both ways
//   h2_sender.h        from Exchanges to frames and to the socket
//   h2_stream_table.h  the Exchanges from their first frame to their end
//   here               feeding, time limits, drain, the end
#pragma once

#include <optional>
#include <string>

#include "base/stepped_charge.h"
#include "wire/codec.h"
#include "wire/frame_rules.h"
#include "wire/h2_bodies.h"
#include "wire/h2_connection.h"
#include "wire/h2_frame_walker.h"
#include "wire/h2_receiver.h"
#include "wire/h2_sender.h"
#include "wire/h2_stream_table.h"

namespace weir::wire {

class H2Session final : public Codec {
 public:
  H2Session(const CodecEnv& env, Wire& wire, const PeerInfo& peer);
  ~H2Session() override;

  void feed(std::span<const std::byte> bytes) override;
  std::span<std::byte> receive_buffer() override;
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
  void receive(std::span<const std::byte> bytes);
  bool take_preface(std::string_view& bytes);
  template <class Work>
  void catching(Work work);
  void keep(std::span<const std::byte> bytes);
  bool digest_stash();
  void drop_stash();
  void cancel_unanswered();
  void die();
  void check_connection();
  void check_idle();
  void drain_if_due();
  void fit_window();

  H2Connection connection_;
  H2StreamTable streams_;
  H2Bodies bodies_;
  H2Sender sender_;
  H2Receiver receiver_;
  FrameRules rules_;
  FrameWalker walker_;
  base::Time opened_;
  base::Time helped_ = base::kNever;  // the turn of the latest helping
  base::Time dead_at_ = base::kNever;
  base::Time inside_since_ = base::kNever;  // a head or a control frame is incomplete since then
  // Beside each other: an idle connection is as large as the allocator's class, 1,792 bytes.
  uint32_t window_ = 0;               // the connection's receive window, as the peer knows it
  uint8_t preface_ = 0;               // bytes of it that have come
  bool eof_ = false;                  // the peer sends no more
  std::optional<Drain> own_drain_;    // the last step of drain_if_due()
  std::string stash_;                 // read, but beyond what one turn may start
  base::SteppedCharge stash_charge_;  // for its room
};

}  // namespace weir::wire
