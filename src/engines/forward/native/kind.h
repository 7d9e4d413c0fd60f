// Kind weir: another weir, which loses nothing of a Call. Models of tokens are asked by proto/forward.proto: readouts,
// log-probabilities of prompts, embeddings and forms of an answer go along, and texts become tokens here, with the
// model's own tokenizer. Models of tensors are asked by the Open Inference Protocol.
#pragma once

#include <memory>
#include <string>

#include "engines/forward/kind.h"

namespace weir::forward {

// `folder`: the model's own, which may have the tokenizer where the options name none; or empty. Errors:
// INVALID_ARGUMENT, naming the file.
base::Result<std::shared_ptr<const Kind>> make_native(const Options& options, const std::string& folder);

}  // namespace weir::forward
