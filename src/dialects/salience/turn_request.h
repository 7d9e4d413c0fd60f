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
inline constexpr uint32_t kMaxImages = 1024;     // each is looked at on the shard; how many fit is their bytes' to say
inline constexpr uint32_t kMaxAppend = 1 << 24;  // tokens in one request
inline constexpr int32_t kMaxPriority = 10;

struct TurnRequest {
  std::optional<base::SessionId> session;  // nothing for a text that names none
  uint32_t offset = 0;
  session::Append::Rewind rewind = session::Append::Rewind::kNo;
  uint32_t priority = 0;           // 0 (interactive) … kMaxPriority (batch)
  msg::Generation generation;      // without history; images alias the request, ranges are sorted and merged
  std::vector<std::string> stops;  // text that ends the generation

  // The priority as a Call's, 1 … `levels`: never more urgent than a smaller one.
  uint32_t level(uint32_t levels) const {
    return 1 + uint32_t((uint64_t(priority) * (levels - 1) + kMaxPriority / 2) / kMaxPriority);
  }
  session::Append append() const;
  // There is nothing that an engine could do: no tokens, nothing to make, nothing to look at.
  bool idle() const;
};

// By hand: the request may be megabytes of tokens and images, which are neither copied twice nor amplified. Checks all
// that needs no model. Errors: INVALID_ARGUMENT with field, value and what is expected; RESOURCE_EXHAUSTED.
base::Result<TurnRequest> read_request(const base::Bytes& message);

// The rest, against the model; cuts max_tokens to what the context has room for, and sorts images by position. Errors:
// INVALID_ARGUMENT, FAILED_PRECONDITION (the model has no readouts, or does not see), RESOURCE_EXHAUSTED (context).
base::Status check_request(TurnRequest& request, const msg::ModelSpec& spec);

}  // namespace weir::salience
