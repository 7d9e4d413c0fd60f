// H2Feed: what was read of one HTTP/2 connection, on its way into the library. It passes everything on as it is, but
// for header blocks that the connection has had before (h2_known_heads.h): those are not decoded again.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "wire/h2_connection.h"
#include "wire/h2_known_heads.h"
#include "wire/h2_receiver.h"
#include "wire/h2_stream_table.h"

namespace weir::wire {

class H2Feed {
 public:
  H2Feed(H2Connection& connection, H2Receiver& receiver, H2StreamTable& streams)
      : connection_(connection), receiver_(receiver), streams_(streams) {}

  // Gives the library `bytes`. `until_head` of them come before the next frame's head; FrameWalker::kInsideHead: they
  // begin inside one. Negative: the library's error, and the rest was not given.
  ssize_t feed(std::string_view bytes, size_t until_head);
  // Gives back what is kept for later requests, while there is none.
  void drop();

 private:
  ssize_t give(std::string_view bytes);
  ssize_t give_head(std::string_view frame);
  void go_on_with_block(std::string_view bytes);
  ssize_t give_known(std::string_view frame, const H2KnownHeads::Head& head);
  void cut_block(std::string_view frame, size_t size);
  void forget();
  void charge();

  H2Connection& connection_;
  H2Receiver& receiver_;
  H2StreamTable& streams_;
  uint64_t ids_ = 0;                     // of heads that were ever known
  std::unique_ptr<H2KnownHeads> known_;  // null until a second request comes: many a connection has one alone
  bool came_ = false;                    // a request has come
  std::string cut_;                      // what has come of a block that is not complete
  size_t missing_ = 0;                   // of it
  uint64_t charged_ = 0;                 // to the heads of the table of streams
};

}  // namespace weir::wire
