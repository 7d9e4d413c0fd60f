// H2Connection: what the parts of one HTTP/2 connection share: its streams, windows and frames, the Guard, and where
// the connection is on its way to its end.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include <nghttp2/nghttp2.h>

#include "wire/coding.h"
#include "wire/connection.h"
#include "wire/guard.h"
#include "wire/h2_block_cache.h"
#include "wire/h2_exchange.h"
#include "wire/h2_field_coding.h"
#include "wire/h2_frame_writer.h"
#include "wire/h2_receive_window.h"
#include "wire/h2_stream_ids.h"
#include "wire/unread_body.h"

namespace weir::wire {

struct H2Connection : Connection {
  H2Connection(const CodecEnv& for_all, Wire& of_connection, const PeerInfo& who)
      : Connection(for_all, of_connection, who),
        limits(env.limits),
        guard(limits, wire.now(), who.proxy ? Guard::Clients::kMany : Guard::Clients::kOne),
        now(wire.now()) {}

  void condemn(std::string_view reason, H2Error code, std::string_view text) { guard.condemn({reason, code, text}); }
  // The peer breaks a rule of RFC 9113: the connection ends with an error of §7.
  void fault(nghttp2_error_code code, std::string_view text) { condemn(reason::kParse, H2Error(code), text); }

  // The Exchange of a stream; null: it is not open. The last one that was asked for is remembered: frames and their
  // parts ask for one stream after the other.
  H2Exchange* exchange_of(int32_t stream) {
    if (stream != asked_) {
      H2Exchange* const* found = open.find(asked_ = stream);
      found_ = found ? *found : nullptr;
    }
    return found_;
  }
  void set_exchange(int32_t stream, H2Exchange& exchange) {
    open.put(stream, &exchange);
    asked_ = stream, found_ = &exchange;
  }
  void forget_exchange(int32_t stream) {
    open.take_out(stream);
    if (asked_ == stream) asked_ = -1, found_ = nullptr;
  }
  // A stream that the client has not opened yet, or never can.
  bool idle(int32_t stream) const { return stream % 2 == 0 || stream > last_seen; }

  // Frames into the output, and their cost to the Guard.
  void send(H2Frame type, uint8_t flags, int32_t stream, std::string_view payload) {
    frames.put(type, flags, stream, payload);
    sent(type, flags, stream, payload.size());
  }
  void sent(H2Frame type, uint8_t flags, int32_t stream, size_t size) {
    guard.sent({uint32_t(size), type, flags, stream, false});
    flush_later();
  }
  void send_reset(int32_t stream, uint32_t code) {
    frames.reset(stream, code);
    sent(H2Frame::kRstStream, 0, stream, 4);
  }
  // By 0: there is nothing to say. Nor is there behind the last GOAWAY.
  void widen(int32_t stream, uint32_t by) {
    if (by == 0 || dead) return;
    frames.window_update(stream, by);
    sent(H2Frame::kWindowUpdate, 0, stream, 4);
  }
  void send_goaway(int32_t last, uint32_t code) {
    frames.goaway(last, code, {});
    sent(H2Frame::kGoaway, 0, 0, 8);
  }
  // Bytes of DATA are dealt with that no stream waits for.
  void consume(size_t n) { widen(0, receive.give(n)); }

  // `n` bytes of a request whose answer is out: nobody waits for them, but their client may for its stream's window.
  void discard_rest(H2Exchange& x, size_t n) {
    consume(n);
    if (!x.flow.whole && takes_rest(x))
      widen(x.stream(), x.flow.receive.give(n));
    else
      x.flow.receive.keep(n);
  }
  // Whether more of it may come. If it is too long to come to its end, no more than its window is taken.
  bool takes_rest(const H2Exchange& x) const {
    if (goaway_sent || overloaded(base::Overload::kShrink)) return false;
    return x.out.behind + uint64_t(std::max<int64_t>(missing(x), 0)) <= UnreadBody::most(limits);
  }

  // Asks for a flush. Inside feed() and the like that is not needed.
  void flush_later() {
    if (!inside) wire.output_ready();
  }
  // Nothing more is read, nor is there anything to write but what is in the output.
  bool session_over() const { return !dead && (terminated || ((goaway_sent || goaway_received) && open.empty())); }

  const Limits& limits;
  Guard guard;
  base::Time now;                                                  // of the present feed(), consumed() or tick()
  InflateShare inflating;                                          // of the present turn
  SharedPace pace;                                                 // of the bodies of requests
  H2BlockCache blocks;                                             // of answers
  H2FieldCoding fields;                                            // header blocks, both ways
  H2FrameWriter frames;                                            // the output
  H2StreamIds<H2Exchange*> open;                                   // streams whose ends are not both closed
  H2ReceiveWindow receive;                                         // all streams together
  int64_t window = kH2FirstWindow, first_window = kH2FirstWindow;  // that the peer takes of all; of each new stream
  uint32_t largest_frame = 1 << 14;                                // that the peer takes
  int32_t last_seen = 0, last_taken = 0;                           // streams: the last one that came, that was opened
  bool settings_taken = false;                                     // ours, by the peer
  bool goaway_sent = false, goaway_received = false;               // no further stream is taken; none is asked for
  bool terminated = false;                                         // the GOAWAY that was sent is the end
  base::Time leaves_at = base::kNever;  // and sooner if it is idle: a client may hang in a stream that was reset
  int32_t leaves_behind = 0;            // but not while this stream, or one before it, goes on for kLastStreams
  bool inside = false;                  // in a call from the connection, which flushes when it is over
  bool is_open = true;                  // the socket is there
  bool resting = false;                 // nothing has come since the coders were put away
  bool dead = false;                    // the connection ends as soon as the output is written
  bool rejected = false;                // the Intake has been told why

 private:
  int32_t asked_ = -1;  // the stream that was asked for last
  H2Exchange* found_ = nullptr;
};

}  // namespace weir::wire
