// Whether a model is ready at an origin of kind openai, and how long its context is: GET /health, where it has that,
// and /v1/models. On one shard's thread.
#pragma once

#include <memory>

#include "engines/forward/kind.h"

namespace weir::forward {

// `text`: what the tokenizer's files say; max_length is the origin's.
std::unique_ptr<Questions> make_openai_questions(net::Shard& shard, OriginConn& conn, const Options& options,
                                                 std::shared_ptr<const msg::TextSpec> text);

}  // namespace weir::forward
