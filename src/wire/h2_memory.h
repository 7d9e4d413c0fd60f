// H2Memory: the memory of the coders of header blocks of one HTTP/2 connection (HPACK), which are libnghttp2's.
//
// Small things that they allocate for a request's fields are kept for the next request of the same thread. Four larger
// ones are there for good: the two coders, and the rings of their tables of fields. They lie in a page of their own,
// which is put away while the connection is idle (base/dormant_pages.h).
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
  // The coders are used from here on. Before every use of them.
  void wake() {
    used_ = true;
    pages_.wake();
  }
  // Puts the coders away. Does nothing where they have not been used since, and where there is no memory for what it
  // would take (it is then tried again after the next use).
  void rest();

 private:
  struct Functions;

  nghttp2_mem functions_;
  base::DormantPages pages_;
  std::bitset<4> taken_;  // places in them
  bool used_ = true;
};

}  // namespace weir::wire
