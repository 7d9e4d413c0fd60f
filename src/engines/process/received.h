// A child's side of the socket: messages, and the regions of shared memory that come with some of them.
#pragma once

#include <optional>

#include "engines/process/protocol.h"

namespace weir::process {

struct Received {
  Message message;
  int region = -1;  // of kInputRegion and kOutputRegion, and of no other: a descriptor, which the caller closes
};

// Waits for the next message. Nothing: the server is gone, or sent what is no message. Any thread, one at a time.
std::optional<Received> receive_message(int socket);

}  // namespace weir::process
