// H2Memory: the memory of one session of the HTTP/2 library.
//
// Each request makes the library allocate some ten small things (a stream, frames, fields), whose memory is kept for
// the next request of the same thread. Two large ones are there for good: the table of streams, and room for a frame
// that is sent. They lie in pages of their own, which the system gets back while the connection is idle.
#pragma once

#include <nghttp2/nghttp2.h>

#include <cstddef>

namespace weir::wire {

class H2Memory {
 public:
  H2Memory();
  // The session has gone.
  ~H2Memory();
  H2Memory(const H2Memory&) = delete;
  H2Memory& operator=(const H2Memory&) = delete;

  nghttp2_mem* functions() { return &functions_; }
  // The session is used from here on.
  void wake() { awake_ = true; }
  // Gives the pages back. The session has nothing to send, so no frame is in the room for one; the table goes only
  // where it is all zeros, as it is without streams. Does nothing where the session has not been used since.
  void rest();

 private:
  struct Functions;

  nghttp2_mem functions_;
  std::byte* pages_ = nullptr;                  // of both
  bool has_table_ = false, has_frame_ = false;  // the library has them
  bool had_table_ = false;                      // the first one: later tables are not all zeros when they come back
  bool awake_ = true;
};

}  // namespace weir::wire
