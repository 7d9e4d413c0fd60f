// Pokes: what a shard's turn has to tell its Inboxes. A poke() makes an Inbox walk over all Calls that it has open: of
// the pokes of one turn the first goes through at once, and the others become one at the turn's end, so that a client
// that hangs up with a hundred Calls costs two walks.
#pragma once

#include <vector>

#include "msg/call.h"

namespace weir::bus {

class Pokes {
 public:
  // True: it is the first that waits for flush(), so a flush() has to be asked for.
  [[nodiscard]] bool add(msg::Inbox& inbox);
  // At the turn's end: those that wait. Whether there were any.
  bool flush();
  // The Inbox may be gone before flush(), or is gone: none of its Calls is left, so nothing has to be told.
  void forget(const msg::Inbox* inbox);

 private:
  struct Poked {
    msg::Inbox* inbox;  // its Calls keep it alive while `again` is set
    bool again = false;
  };
  std::vector<Poked> poked_, flushed_;  // since the last flush; before it, kept for its memory
};

}  // namespace weir::bus
