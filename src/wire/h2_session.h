// H2: an HTTP/2 server connection (RFC 9113) on libnghttp2, without I/O.
//
// libnghttp2 does frames, HPACK, stream states and HTTP messaging; the Guard does what it leaves open (reliability is
// in wire/guard.h). Inside the library's callbacks services may be called; what they say is kept in their Exchange and
// becomes frames in pending(), all streams together. Nobody is told that an Exchange is over from inside pending():
// that waits for the socket to take the bytes, or for the end of feed() and tick().
//
//   h2_session.cc  the library's session: options, settings, callbacks
//   h2_receive.cc  from frames to Exchanges
//   h2_send.cc     from Exchanges to frames and to the socket
//   h2.cc          the Codec: feeding, time limits, drain, the end
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nghttp2/nghttp2.h>

#include "base/stepped_charge.h"
#include "wire/codec.h"
#include "wire/coding.h"
#include "wire/frame_rules.h"
#include "wire/guard.h"
#include "wire/h2_exchange.h"
#include "wire/h2_output.h"

namespace weir::wire {

class H2 final : public Codec, private H2Streams {
 public:
  H2(const CodecEnv& env, Wire& wire, const PeerInfo& peer);
  ~H2() override;

  void feed(std::span<const std::byte> bytes) override;
  void eof() override;
  void closed() override;
  size_t pending(std::span<iovec> out) override;
  void consumed(size_t n) override;
  bool wants_read() const override { return !dead_ && stash_.empty(); }
  bool finished() const override;
  bool idle() const override { return serving_ == 0 && stash_.empty(); }
  void tick(base::Time now) override;
  void drain(Drain step) override;
  std::string_view protocol() const override { return "h2"; }

 private:
  friend struct H2Callbacks;
  enum class Inside : uint8_t { kNothing, kLibrary };

  // H2Streams
  void touch(H2Exchange& x) override;
  void consume(H2Exchange& x, size_t n) override;
  void expect(H2Exchange& x, size_t n) override;
  void released(H2Exchange& x) override { sweep_.push_back(&x); }
  void tick_soon() override { wire_.tick_soon(); }
  base::Time now() const override { return wire_.now(); }
  base::MemoryLedger* memory() const override { return memory_; }

  // h2_session.cc
  void start();
  H2Exchange* exchange_of(int32_t stream) const;

  // h2_receive.cc
  int on_begin_headers(const nghttp2_frame& frame);
  bool full();
  int on_header(std::string_view name, std::string_view value);
  void pseudo_field(Request& request, std::string_view name, std::string_view value);
  void field(H2Exchange& x, std::string_view name, std::string_view value);
  int on_frame(const nghttp2_frame& frame);
  int on_data(int32_t stream, std::span<const std::byte> piece);
  int on_stream_close(int32_t stream);
  int on_invalid_frame(int lib_error);
  void begin_request(H2Exchange& x);
  void plan_body(H2Exchange& x, Plan plan);
  void request_end(H2Exchange& x);
  void collected(H2Exchange& x, BodyCollector::State state);
  void follow_body(H2Exchange& x, BodyCollector::State state);
  void drop_body(H2Exchange& x);
  void refuse(H2Exchange& x, int status, std::string_view reason, std::string_view text);

  // h2_send.cc
  void fill();
  void submit_touched();
  void submit_head(H2Exchange& x);
  ssize_t read_body(H2Exchange& x, size_t max, uint32_t& flags);
  int send_body(H2Exchange& x, const uint8_t* head, size_t n);
  ssize_t frame_size(int32_t stream, uint32_t max_frame) const;
  int on_frame_sent(const nghttp2_frame& frame);
  int on_frame_not_sent(const nghttp2_frame& frame);
  void add_fields(const Fields& fields);
  void mark(H2Exchange& x, size_t bytes, bool end);
  void pass_marks();

  // h2.cc
  size_t digest(std::span<const std::byte> bytes);
  size_t admit(std::span<const std::byte> bytes);
  void receive(std::span<const std::byte> bytes);
  bool digest_stash();
  void condemn(std::string_view reason, H2Error code, std::string_view text);
  void die();
  void drop_output();
  void abort_all();
  void close_exchange(H2Exchange& x, bool complete);
  void settle();
  void sweep();
  void keep_spare(std::unique_ptr<H2Exchange> x);
  void drop_spares();
  bool charge_head(H2Exchange& x, size_t bytes);
  void check_exchange(H2Exchange& x);
  void settle_lost(H2Exchange& x);
  void check_unread(H2Exchange& x);
  void check_connection();
  void check_drain();
  void send_away();
  void fit_window();
  bool overloaded(base::Overload step) const { return memory_ && memory_->at_least(step); }
  bool session_over() const;

  const CodecEnv env_;
  base::MemoryLedger* const memory_;  // of env_.slabs, or null
  const Limits& limits_;
  Wire& wire_;
  const PeerInfo& peer_;

  nghttp2_session* session_ = nullptr;
  Guard guard_;
  base::SteppedCharge heads_;  // of requests, and what is kept for the next ones
  FrameRules rules_;
  FrameWalker walker_;
  H2Output output_;
  base::Time now_;  // of the present feed(), consumed() or tick()
  base::Time opened_;
  base::Time helped_ = base::kNever;  // the turn of the latest helping
  InflateShare inflating_;
  Inside inside_ = Inside::kNothing;
  bool dead_ = false;      // the connection ends as soon as the output is written
  bool eof_ = false;       // the peer sends no more
  bool rejected_ = false;  // the Intake has been told why
  bool goaway_sent_ = false;
  std::optional<Drain> away_;  // the step that send_away() has taken last
  base::Time dead_at_ = base::kNever;
  base::Time inside_since_ = base::kNever;  // a head or a control frame is incomplete since then
  base::Time idle_since_;
  RateFloor drain_floor_;
  uint32_t window_ = 0;  // the connection's receive window, as the peer knows it
  std::string stash_;    // read, but beyond what one turn may start

  H2Exchange* heading_ = nullptr;  // whose fields are arriving
  bool trailers_ = false;          // they are trailers
  uint32_t owed_resets_ = 0;       // invalid frames that are counted, whose reset is not yet sent
  HeaderBudget nobodys_;           // fields of a stream that has no Exchange

  // A place in the output at which `bytes` of a response body, or all of it, have been taken.
  struct Mark {
    uint64_t at = 0;
    H2Exchange* exchange = nullptr;
    size_t bytes = 0;
    bool end = false;
  };
  Fifo<Mark> marks_;
  uint64_t control_mark_ = 0;     // where the output ended at the Guard's last passed()
  H2Exchange* ending_ = nullptr;  // its END_STREAM is in the frame that is being sent

  std::vector<std::unique_ptr<H2Exchange>> live_, spare_;
  size_t serving_ = 0;  // live, and not yet closed
  std::vector<H2Exchange*> touched_, over_, drained_, sweep_;
  std::vector<nghttp2_nv> nva_;
};

}  // namespace weir::wire
