// SequenceAttempt: one Call of tokens at another weir, as a call of Forward.Generate (proto/forward.proto). On one
// shard's thread.
#pragma once

#include <memory>

#include "engines/forward/kind.h"

namespace weir::forward {

std::unique_ptr<Attempt> make_sequence_attempt(const Asked& asked, Attempt::Receiver& receiver);

}  // namespace weir::forward
