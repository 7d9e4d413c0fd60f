// Processor: what a model's folder says about text: its tokenizer and its chat template. Immutable; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/status.h"
#include "jinja/template.h"
#include "text/budget.h"
#include "text/tokenizer.h"

namespace weir::text {

struct Processor {
  std::shared_ptr<const Tokenizer> tokenizer;   // never null
  std::shared_ptr<const jinja::Template> chat;  // null: the model is not made for chat
  std::string bos, eos, unk, pad;               // the special tokens' text; empty when there is none
};

// From the files of a Hugging Face folder; empty text for files that are not there. `tokenizer_config` may hold the
// chat template (`chat_template`), which `chat_template_jinja`, a file of its own, overrides; without either, chatml or
// llama-3 is chosen by the special tokens that the vocabulary has. Errors: INVALID_ARGUMENT, naming the file.
base::Result<std::shared_ptr<const Processor>> make_processor(std::string_view tokenizer_json,
                                                              std::string_view tokenizer_config,
                                                              std::string_view chat_template_jinja);

// The prompt of a conversation: a list of {"role", "content"} as OpenAI's chat endpoint has it, and whatever else the
// template knows (tools, …) in `extra`, an object. Content parts of type text are joined; a part of type image becomes
// `image_text`. Arguments of tool calls that are JSON text become values, within kMostArguments. Errors:
// INVALID_ARGUMENT in the words of the template (raise_exception) or naming what it cannot do; RESOURCE_EXHAUSTED for
// more than any template may take; ABORTED for more than the budget allows; CANCELLED.
//
// Linear in the messages, the template aside: no object has more than kMostMembers members, since each member of
// ordered JSON is looked for among those before it.
inline constexpr size_t kMostMembers = 512;        // of an object
inline constexpr size_t kMostArguments = 1 << 20;  // bytes, of the arguments of one call
inline constexpr size_t kDeepestArguments = 100;   // lists and objects inside each other

// Whether an object in that text, which need not be JSON, may have more than `most_members` members, or lists and
// objects are nested deeper than that. One pass over the text.
bool crowded(std::string_view json, size_t most_members = kMostMembers, size_t deepest = SIZE_MAX);

struct ChatOptions {
  bool add_generation_prompt = true;
  bool continue_final_message = false;
  std::string image_text;
  Budget budget{};
};
base::Result<std::string> render_chat(const Processor& processor, const nlohmann::json& messages,
                                      const nlohmann::json& extra, const ChatOptions& options);
// The same for JSON that knows the order of its keys: tools are then shown to the model as the client wrote them.
base::Result<std::string> render_chat_ordered(const Processor& processor, const nlohmann::ordered_json& messages,
                                              const nlohmann::ordered_json& extra, const ChatOptions& options);

}  // namespace weir::text
