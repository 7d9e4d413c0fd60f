// From what a request brings to token ids, with room for images.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dialects/openai/request.h"
#include "msg/generate.h"
#include "msg/spec.h"
#include "msg/text_codec.h"

namespace weir::openai {

// One prompt as a model takes it.
struct Sequence {
  std::vector<uint32_t> ids;
  std::vector<msg::Image> images;
  std::string echo;  // its text, where the answer is to begin with it
};

// The prompt of a chat, through the model's template. Errors: 400 naming the message or the member; ABORTED where the
// budget is too small, CANCELLED; base::overloaded(). What does not fit the context is shortened as Request::overlong
// says; it may still not fit then, which is for the answer to refuse. Sets what the request says of calls and thoughts.
ApiError make_chat(Request& request, const msg::TextSpec& spec, Sequence& out, const msg::TextBudget& budget);
// The tokens that the request's members allow and keep out, as Request::filter. Errors: 400.
ApiError make_filter(Request& request, const msg::TextSpec& spec);
// Request::biases as those of tokens: biases of one token add up. Errors: 400.
ApiError settle_biases(Request& request, const msg::TextSpec& spec);
// Any other prompt; `param` is what the request calls it. Errors: 400; CANCELLED.
ApiError make_prompt(const Prompt& prompt, const Request& request, const msg::TextSpec& spec, std::string_view param,
                     Sequence& out, const msg::TextBudget& budget);

// Errors of ids and of their number, which name the member that they came from. Errors: 400.
ApiError check_ids(const msg::TextSpec& spec, std::span<const uint32_t> ids, std::string_view param);
// `what` (so many tokens) is longer than the model's context. `tokens`: as the error has them; 0: it does not tell.
ApiError exceeds_context(const msg::TextSpec& spec, std::string_view param, std::string what, uint64_t tokens = 0);

// Whether the model has tokens with which a suffix is filled in.
bool fills_in(const msg::TextCodec& codec);

// conversation.cc: the template's text, and the images in the order in which the text has them (their places are not
// yet known).
struct Conversation {
  std::string text;
  std::vector<msg::Image> images;
  std::string echo;                // the message that the answer goes on with, where it is to begin with it
  std::vector<size_t> beginnings;  // where it could begin if it is to be shorter: messages (turns.h)
};
// `beginning`: one of those; 0: with all messages. The budget's memory stays charged for the text alone.
ApiError render(Request& request, const msg::TextSpec& spec, size_t beginning, Conversation& out,
                const msg::TextBudget& budget);

}  // namespace weir::openai
