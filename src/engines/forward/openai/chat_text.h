// The text of a model whose origins know conversations alone (`api: chat`), and have a tokenizer that nobody here
// needs: tokens are bytes, and the prompt of a conversation is the JSON of its messages and tools, which the origin
// gets as it is. So every protocol that has models of text has these.
//
//   prompt = "<|weir_chat|>" {"messages": […], "tools": […]}        of a conversation; anything else is a text
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "msg/spec.h"

namespace weir::forward {

// A TextSpec with codec, vocabulary and ends. Calls of tools are put down in Hermes' form.
base::Result<std::shared_ptr<const msg::TextSpec>> make_chat_text();

// The members `messages` and `tools` of a request to /v1/chat/completions, for a prompt in that form or any other: that
// is one message of the user. Errors: INVALID_ARGUMENT: a client has written the beginning itself, and something else
// behind it.
base::Result<std::string> members_of_prompt(std::string_view prompt);

}  // namespace weir::forward
