// The TokenModel of a TokenEngine, with a TextTensorInbox before its lanes.
#pragma once

#include <memory>

#include "generation/token_model.h"
#include "msg/spec.h"

namespace weir::llm {

// `spec`: as it was wanted, with the name of the engine ("llm") and its text; what all models of tokens have alike is
// filled in here: platform, tensors; and the context is cut to what one sequence can have of `policy`'s bytes.
generation::TokenModel make_text_model(msg::ModelSpec spec, std::unique_ptr<generation::TokenEngine> engine,
                                       const generation::TokenPolicy& policy);

}  // namespace weir::llm
