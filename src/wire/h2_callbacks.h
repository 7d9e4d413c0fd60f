// The library's side of an HTTP/2 connection: its session with options and settings, and its callbacks, which lead to
// the receiver and the sender.
#pragma once

#include <nghttp2/nghttp2.h>

namespace weir::wire {

class H2Bodies;
struct H2Connection;
class H2Exchange;
class H2Receiver;
class H2Sender;

// The receiver of the library's callbacks. An exception ends the connection with a verdict: the library is C.
struct H2Parts {
  H2Connection& connection;
  H2Receiver& receiver;
  H2Bodies& bodies;
  H2Sender& sender;
};

// A server's session, its SETTINGS submitted; the caller owns it. `parts` and `memory` outlive it. Throws
// std::bad_alloc.
nghttp2_session* open_h2_session(H2Parts& parts, nghttp2_mem* memory);

// The body of an Exchange, as the library asks for it: H2Sender::read_body().
nghttp2_data_provider body_provider(H2Exchange& x);

}  // namespace weir::wire
