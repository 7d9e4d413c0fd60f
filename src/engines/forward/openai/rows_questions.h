// Whether an origin of kind openai has a model of embeddings or rankings ready, and which: GET /health, where it has
// that, and /v1/models, where it has those; then one request tells how wide its embeddings are, or that it ranks. On
// one shard's thread.
#pragma once

#include <atomic>
#include <memory>

#include "engines/forward/kind.h"
#include "engines/forward/openai/rows_message.h"

namespace weir::forward {

// The place of the model's form in rows_forms(): as the origin answers that is asked for the signature.
using ChosenForm = std::atomic<size_t>;

// `text`: what the tokenizer's files say; null: the origin has the tokenizer.
std::unique_ptr<Questions> make_rows_questions(net::Shard& shard, OriginConn& conn, const Options& options,
                                               std::shared_ptr<const msg::TextSpec> text, ChosenForm& form);

}  // namespace weir::forward
