// Kind openai with api embeddings or rerank: an encoder or a reranker that an origin has behind /v1/embeddings or
// /rerank. To every protocol it is a model of tensors as an encoder here is, which takes texts as well (text_rows.h).
#pragma once

#include <memory>

#include "engines/forward/kind.h"

namespace weir::forward {

// Errors: those of the tokenizer's files, where the options name them.
base::Result<std::shared_ptr<const Kind>> make_openai_rows(const Options& options);

}  // namespace weir::forward
