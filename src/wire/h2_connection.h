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

namespace weir::wire {

struct H2Connection : Connection {
  H2Connection(const CodecEnv& for_all, Wire& of_connection, const PeerInfo& who)
      : Connection(for_all, of_connection, who), limits(env.limits), guard(limits, wire.now()), now(wire.now()) {}

  void condemn(std::string_view reason, H2Error code, std::string_view text) { guard.condemn({reason, code, text}); }
  // The Exchange of a stream; null when the stream has none.
  H2Exchange* exchange_of(int32_t stream) const {
    return static_cast<H2Exchange*>(nghttp2_session_get_stream_user_data(session, stream));
  }
  void reset_stream(int32_t stream, uint32_t code) {
    nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, stream, code);
  }
  // Asks for a flush where the library has frames to send. Inside the library that is asked when it returns.
  void flush_later() {
    if (!in_library && nghttp2_session_want_write(session)) wire.output_ready();
  }
  // The library has nothing more to read or to write.
  bool session_over() const {
    return !dead && !nghttp2_session_want_read(session) && !nghttp2_session_want_write(session);
  }

  const Limits& limits;
  nghttp2_session* session = nullptr;  // owned by H2Session; null once the socket is gone
  Guard guard;
  base::Time now;            // of the present feed(), consumed() or tick()
  InflateShare inflating;    // of the present turn
  H2KnownBlocks blocks;      // of answers
  bool in_library = false;   // inside a call of the library: its callbacks must not call it for output
  bool dead = false;         // the connection ends as soon as the output is written
  bool rejected = false;     // the Intake has been told why
  uint32_t owed_resets = 0;  // invalid frames that are counted, whose reset is not yet sent
};

}  // namespace weir::wire
