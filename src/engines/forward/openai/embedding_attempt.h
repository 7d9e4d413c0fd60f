// EmbeddingAttempt: the embedding of one Call's tokens at one origin of kind openai (/v1/embeddings). On one shard's
// thread.
#pragma once

#include <memory>

#include "engines/forward/kind.h"

namespace weir::forward {

std::unique_ptr<Attempt> make_embedding_attempt(const Asked& asked, Attempt::Receiver& receiver);

}  // namespace weir::forward
