// EchoModel: a model of tokens without a model. It says the prompt back, byte by byte, again and again, until
// max_tokens.
//
// Only the path of a token to its client remains, and the engine is for measuring that path, as identity does for
// tensors, and testing clients where no weights are at hand. Its vocabulary is the 256 bytes and chatml's special
// tokens; every token has probability 1; embeddings are the share of each byte in the text.
//
// Parameters of model.yaml: those of the llm engine that are about batching (kv_cache, block_size, max_running,
// step_tokens, step_time (0), max_waiting, prefix_cache, max_length), and step_us: how long a step takes, 0 by default.
#pragma once

#include "base/status.h"
#include "generation/token_model.h"
#include "msg/spec.h"

namespace weir::llm {

// Errors: INVALID_ARGUMENT, naming the parameter. Any thread.
base::Result<generation::TokenModel> load_echo(const msg::ModelSpec& wanted);

}  // namespace weir::llm
