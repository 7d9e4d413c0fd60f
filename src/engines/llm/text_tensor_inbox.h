// TextTensorInbox: the Inbox that makes a model of tokens look like a model of tensors: text_input in, text_output out.
//
// A Call that carries a Generation passes through untouched. One that does not is tokenized and becomes a text call
// with a Call of its own, whose Tokens come back as Outputs: one at the end, or, when it asks for `stream`, one per
// piece of text and a last one with the parameters finish_reason ("stop", "length"), prompt_tokens and
// completion_tokens. A stop string ends the answer; the text call lands when the lane has noticed.
#pragma once

#include <memory>

#include "generation/token_model.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::llm {

// `spec` and `stats` outlive the Inbox. `lane` takes Calls with Generations.
std::unique_ptr<msg::Inbox> make_text_tensor_inbox(std::unique_ptr<msg::Inbox> lane, const msg::ModelSpec& spec,
                                                   bus::ModelStats& stats);

}  // namespace weir::llm
