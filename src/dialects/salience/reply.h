// The events of Generate as protobuf, written by hand: one per token.
#pragma once

#include "base/bytes.h"
#include "msg/call.h"

namespace weir::salience {

// The numbers of GenerateDone.FinishReason.
enum class Reason : uint32_t { kEos = 1, kLength = 2, kStopString = 4 };
inline Reason reason_of(msg::Finish finish) {
  return finish == msg::Finish::kNone || finish == msg::Finish::kLength ? Reason::kLength : Reason::kEos;
}

base::Bytes write_token(const msg::Token& token);
base::Bytes write_done(uint32_t prompt_tokens, uint32_t completion_tokens, Reason reason);

}  // namespace weir::salience
