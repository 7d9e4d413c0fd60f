// TurnRequest: a GenerateRequest, read and checked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "msg/generate.h"
#include "msg/spec.h"
#include "session/session_table.h"

namespace weir::salience {

inline constexpr uint32_t kMaxRanges = 1024;
inline constexpr uint32_t kMaxImages = 1024;  // bounds the shard's work for a request
// Bytes of all images of a request: the shard parses them when they come, and copies them when the session keeps them.
inline constexpr size_t kMaxImageBytes = size_t(16) << 20;
inline constexpr uint32_t kMaxAppend = 1 << 20;    // tokens in one request: read in a turn of the loop
inline constexpr uint32_t kMaxFields = 128 << 10;  // protobuf fields, ids that are not packed among them
inline constexpr int32_t kMaxPriority = 10;

// The events of a Generate that the client has had from another node.
struct Relayed {
  std::vector<uint32_t> generated;  // tokens
  uint32_t end = 0;                 // the position behind the last event
};

struct TurnRequest {
  std::optional<base::SessionId> session;  // nothing: no id, or a malformed one
  uint32_t offset = 0;
  session::Append::Rewind rewind = session::Append::Rewind::kNo;
  uint32_t priority = 0;           // 0 (interactive) … kMaxPriority (batch)
  msg::Generation generation;      // without history; images alias the request, ranges are sorted and merged
  std::vector<std::string> stops;  // text that ends the generation
  Relayed relayed;                 // its tokens are the last ones of generation.append

  // The priority as msg::Call::priority, scaled to 1 … `levels`.
  uint32_t level(uint32_t levels) const {
    return 1 + uint32_t((uint64_t(priority) * (levels - 1) + kMaxPriority / 2) / kMaxPriority);
  }
  session::Append append() const;
  // Leaves the part of it that is behind that much. The tokens that the client has become part of the prompt.
  void resume(Relayed relayed);
  // True if no engine is needed: nothing to append, to generate, or to read out.
  bool idle() const;
};

// Parses a GenerateRequest and checks everything that needs no model. It is parsed by hand, because it may have
// megabytes of tokens and images: images alias `message`, tokens are copied once. Errors: INVALID_ARGUMENT with field,
// value and what is expected; RESOURCE_EXHAUSTED.
base::Result<TurnRequest> read_request(const base::Bytes& message);

// Checks the rest against the model, lowers max_tokens to the room that the context has, and sorts images by position.
// Errors: INVALID_ARGUMENT, FAILED_PRECONDITION (the model has no readouts, or takes no images), RESOURCE_EXHAUSTED
// (context).
base::Status check_request(TurnRequest& request, const msg::ModelSpec& spec);

}  // namespace weir::salience
