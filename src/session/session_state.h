// SessionState: a session as bytes, for another node to go on with. Pure; any thread.
//
//   state  = "weir-tokens 1" LF "tenant " word LF "model " word SP word LF "vocabulary " number LF "age " number LF
//            "tokens " number LF "images " number LF LF *token *image
//   token  = 4 bytes, the low one first
//   image  = number SP number SP number SP word LF bytes      start, end, size of the bytes, MIME type
//   word   = percent encoded; numbers are decimal
//
// A session that is too long to be kept has "unkept " number LF (its bytes) in the place of "tokens", and ends there:
// another node says so, instead of that it does not know it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "msg/generate.h"

namespace weir::session {

struct SessionState {
  static constexpr size_t kLargest = 4 << 20;  // bytes of a state

  std::string tenant;  // as all nodes name it (SessionTable::open())
  std::string model, version;
  uint32_t vocabulary = 0;  // of the model: a token at or above it is none
  base::Duration age{};     // since it was opened; whole seconds are kept
  std::vector<uint32_t> tokens;
  std::vector<msg::Image> images;  // in order
  uint64_t unkept = 0;             // the bytes of one that is too long; else 0
};

// At most kLargest bytes.
std::string write_state(const SessionState& state);
// Errors: DATA_LOSS naming the part that cannot be read. Tokens outside of the vocabulary and images outside of the
// tokens are refused.
base::Result<SessionState> read_state(std::string_view text);

}  // namespace weir::session
