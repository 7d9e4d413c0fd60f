// H2Connection: what the parts of one HTTP/2 connection share: the library's session, the Guard, and where the
// connection is on its way to its end.
#pragma once

#include <cstdint>
#include <string_view>

#include <nghttp2/nghttp2.h>

#include "wire/coding.h"
#include "wire/connection.h"
#include "wire/guard.h"
#include "wire/h2_exchange.h"
#include "wire/h2_known_blocks.h"
#include "wire/h2_memory.h"

namespace weir::wire {

struct H2Connection : Connection {
  H2Connection(const CodecEnv& for_all, Wire& of_connection, const PeerInfo& who)
      : Connection(for_all, of_connection, who),
        limits(env.limits),
        guard(limits, wire.now(), who.proxy ? Guard::Clients::kMany : Guard::Clients::kOne),
        now(wire.now()) {}

  // The library's session, woken for whoever uses it. Only while is_open().
  nghttp2_session* session() {
    session_memory_.wake();
    return session_;
  }
  nghttp2_mem* session_memory() { return session_memory_.functions(); }
  void open(nghttp2_session* session) { session_ = session; }
  bool is_open() const { return session_ != nullptr; }
  // The socket is gone.
  void close() {
    forget_exchange(asked_);
    nghttp2_session* ended = session();
    session_ = nullptr;
    nghttp2_session_del(ended);
  }
  // Puts the session away until it is used again, where it waits for the peer alone.
  void rest() {
    if (!session_over() && !wants_write()) session_memory_.rest();
  }

  void condemn(std::string_view reason, H2Error code, std::string_view text) { guard.condemn({reason, code, text}); }
  // The Exchange of a stream; null when the stream has none. The last one that was asked for is remembered: frames and
  // their parts ask for one stream after the other.
  H2Exchange* exchange_of(int32_t stream) {
    if (stream != asked_) found_ = find_exchange(asked_ = stream);
    return found_;
  }
  // A stream opens with its Exchange, or has closed: what was found of it is no longer so.
  void set_exchange(int32_t stream, H2Exchange& exchange) {
    nghttp2_session_set_stream_user_data(session(), stream, &exchange);
    asked_ = stream, found_ = &exchange;
  }
  void forget_exchange(int32_t stream) {
    if (asked_ == stream) asked_ = -1, found_ = nullptr;
  }
  void reset_stream(int32_t stream, uint32_t code) {
    nghttp2_submit_rst_stream(session(), NGHTTP2_FLAG_NONE, stream, code);
  }
  bool asleep() const { return session_memory_.asleep(); }
  // The library has frames to send. It is not woken for the question: asleep, it has none.
  bool wants_write() const { return !asleep() && nghttp2_session_want_write(session_); }
  // Asks for a flush where the library has frames to send. Inside the library that is asked when it returns.
  void flush_later() {
    if (!in_library && wants_write()) wire.output_ready();
  }
  // The library has nothing more to read or to write.
  bool session_over() const { return !dead && !asleep() && !nghttp2_session_want_read(session_) && !wants_write(); }

  const Limits& limits;
  Guard guard;
  base::Time now;            // of the present feed(), consumed() or tick()
  InflateShare inflating;    // of the present turn
  SharedPace pace;           // of the bodies of requests
  H2KnownBlocks blocks;      // of answers
  bool in_library = false;   // inside a call of the library: its callbacks must not call it for output
  bool dead = false;         // the connection ends as soon as the output is written
  bool rejected = false;     // the Intake has been told why
  uint32_t owed_resets = 0;  // invalid frames that are counted, whose reset is not yet sent

 private:
  H2Exchange* find_exchange(int32_t stream) {
    return static_cast<H2Exchange*>(nghttp2_session_get_stream_user_data(session(), stream));
  }

  H2Memory session_memory_;  // outlives the session
  nghttp2_session* session_ = nullptr;
  int32_t asked_ = -1;  // the stream that was asked for last
  H2Exchange* found_ = nullptr;
};

}  // namespace weir::wire
