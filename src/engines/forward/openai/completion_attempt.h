// CompletionAttempt: one Call of tokens as a streamed completion at one origin of kind openai. On one shard's thread.
#pragma once

#include <memory>

#include "engines/forward/kind.h"

namespace weir::forward {

std::unique_ptr<Attempt> make_completion_attempt(const Asked& asked, Attempt::Receiver& receiver);

}  // namespace weir::forward
