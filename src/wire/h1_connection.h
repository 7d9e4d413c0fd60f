// H1Connection: what the parts of one HTTP/1 connection share: its output and memory, and where it is on its way to its
// end.
#pragma once

#include "wire/output_connection.h"

namespace weir::wire {

struct H1Connection : OutputConnection {
  using OutputConnection::OutputConnection;

  bool last = false;                // no request is taken after the one that is being read
  bool closing = false;             // nothing is read any more, nor written behind what is in the output
  base::Time moved = base::kNever;  // when a piece of body last came or an answer last went
};

}  // namespace weir::wire
