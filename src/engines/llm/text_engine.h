// The Engine of a model of tokens: a TokenEngine behind a token lane, and the text front before that.
#pragma once

#include <memory>

#include "generation/lane.h"
#include "msg/spec.h"
#include "sched/engine.h"

namespace weir::llm {

// `spec`: as it was wanted, with the name of the engine ("llm") and its text; what all models of tokens have alike is
// filled in here: platform, tensors; and the context is cut to what one sequence can have of `policy`'s bytes. The
// Engine's own Inbox takes `engine`.
std::unique_ptr<sched::Engine> make_text_engine(msg::ModelSpec spec, std::unique_ptr<generation::TokenEngine> engine,
                                                const generation::TokenPolicy& policy);

}  // namespace weir::llm
