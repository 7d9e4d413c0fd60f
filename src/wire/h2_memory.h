// H2Memory: the memory of one session of the HTTP/2 library.
//
// Each request makes the library allocate some ten small things (a stream, frames, fields), whose memory is kept for
// the next request of the same thread. Five large ones are there for good: the session's struct, the rings of its two
// tables of fields, the table of streams, and room for a frame that is sent. They lie in pages of their own, which are
// put away while the connection is idle (base/dormant_pages.h).
#pragma once

#include <nghttp2/nghttp2.h>

#include <bitset>

#include "base/dormant_pages.h"

namespace weir::wire {

class H2Memory {
 public:
  H2Memory();
  H2Memory(const H2Memory&) = delete;
  H2Memory& operator=(const H2Memory&) = delete;

  nghttp2_mem* functions() { return &functions_; }
  // The session is used from here on. Before every use of it.
  void wake() {
    used_ = true;
    pages_.wake();
  }
  // Puts the session away; not inside the library. It has nothing to send, so no frame is in the room for one. Does
  // nothing where the session has not been used since, and where there is no memory for what it would take (it is then
  // tried again after the next use).
  void rest();
  // The session is not to be looked at.
  bool asleep() const { return pages_.asleep(); }

 private:
  struct Functions;

  nghttp2_mem functions_;
  base::DormantPages pages_;
  std::bitset<5> taken_;  // places in them
  bool used_ = true;
};

}  // namespace weir::wire
