// The text of a model whose origins know conversations alone (`api: chat`), and have a tokenizer that nobody here
// needs: tokens are bytes, and the prompt of a conversation is the JSON of its messages and tools, which the origin
// gets as it is. So every protocol that has models of text has these.
//
//   prompt = "<|weir_chat|>" {"messages": […], "tools": […], …}     of a conversation; anything else is a text
//
// An image is three tokens inside of a message's text there; in the request it is a part of the message's content.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "msg/spec.h"

namespace weir::forward {

// An id without any text: what is said of a token that adds none goes with it.
inline constexpr uint32_t kNoText = 261;

// A TextSpec with codec, vocabulary and ends. Calls of tools are put down in Hermes' form, thoughts between <think> and
// </think>.
base::Result<std::shared_ptr<const msg::TextSpec>> make_chat_text();
// The same model takes images, as many as a message may have.
msg::TextSpec::Vision chat_vision();

// Whether it is the prompt of a conversation, so that thoughts are taken out of its answer.
bool is_chat(std::string_view prompt);

// The members `messages`, `tools` and the few that go with them of a request to /v1/chat/completions, for a prompt in
// that form or any other: that is one message of the user. Errors: INVALID_ARGUMENT: a client has written the beginning
// itself, and something else behind it.
base::Result<std::string> members_of_prompt(std::string_view prompt);

// The same members with these images in their places, in pieces. Errors: INVALID_ARGUMENT: places for more images, or
// fewer; images that are not JSON yet are larger than kMostRawImages together.
inline constexpr size_t kMostRawImages = 8 << 20;
base::Result<std::vector<base::Bytes>> put_images(std::string_view members, std::span<const msg::Image> images);

}  // namespace weir::forward
