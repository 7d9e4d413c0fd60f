// RowsAttempt: one Call's texts embedded or ranked at one origin of kind openai, in one request. On one shard's thread.
#pragma once

#include <memory>

#include "engines/forward/kind.h"
#include "engines/forward/openai/rows_message.h"

namespace weir::forward {

// The Outputs have the parameter `prompt_tokens` where the origin has counted them.
std::unique_ptr<Attempt> make_rows_attempt(const Asked& asked, Attempt::Receiver& receiver, RowsFor what,
                                           RowsForm form);

}  // namespace weir::forward
