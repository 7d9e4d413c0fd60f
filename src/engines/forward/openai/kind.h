// Kind openai: OpenAI's completions, as vLLM, SGLang, llama.cpp's server and weir serve them. Text becomes tokens here,
// with the model's own tokenizer, and an origin gets token ids; so every protocol has all that it has with a model that
// runs here, but for what such servers have no word for: calls of tools that are held to a schema, readouts,
// log-probabilities of a prompt. Forms of an answer go along, and what comes back is held against them.
#pragma once

#include <memory>
#include <string>

#include "engines/forward/kind.h"

namespace weir::forward {

// `folder`: the model's own, which has the tokenizer where the options name none; or empty. Errors: INVALID_ARGUMENT,
// NOT_FOUND, naming the file.
base::Result<std::shared_ptr<const Kind>> make_openai(const Options& options, const std::string& folder);

}  // namespace weir::forward
