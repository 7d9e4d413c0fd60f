// The memory of the HTTP/2 library: each request makes it allocate some ten small things (a stream, frames, fields),
// whose memory is kept for the next request of the same thread.
#pragma once

#include <nghttp2/nghttp2.h>

namespace weir::wire {

// For the sessions of this thread; what one of them holds is given back on the same thread.
nghttp2_mem* h2_memory();

}  // namespace weir::wire
