// ToolStyle: how a model's chat template writes calls of tools, and a grammar that makes it call some.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "grammar/readers.h"
#include "msg/text_codec.h"
#include "msg/token_constraint.h"
#include "tokenizers/tokenizer.h"

namespace weir::text {

struct ToolStyle {
  msg::ToolFormat format = msg::ToolFormat::kNone;
  // Mistral: [TOOL_CALLS]name[ARGS]{…}; DeepSeek: the name alone, without a code block; Phi: <|tool_call|>[…].
  bool newer = false;
};

// By the markers that the template has; kNone where it has none that are known.
ToolStyle tool_style_of(std::string_view chat_template);
// The format that a model's setting names: "hermes", …; nothing: another word.
std::optional<msg::ToolFormat> tool_format_named(std::string_view name);
// All of these words, for errors: "hermes, … or none".
std::string tool_format_names();
// Whether the template has models think before they answer.
bool thinks(std::string_view chat_template);

// A special token stands in a grammar as 0xff and its text, so that no other text is taken for it (Vocabulary has them
// so); any other marker as it is.
std::string grammar_marker(const tokenizers::Tokenizer& tokenizer, std::string_view text);

// The grammar of calls: one at least, and several where `form` allows; or of JSON of its schema `otherwise`, if it has
// one, instead. Errors: a `strict` schema that cannot be held to, with the name of its tool.
grammar::Result<grammar::Grammar> read_tool_calls(const msg::StructuredOutput& form, ToolStyle style,
                                                  const tokenizers::Tokenizer& tokenizer);
// Lets thoughts come before a form, where the form says that they may.
void add_thoughts(const msg::StructuredOutput& form, ToolStyle style, const tokenizers::Tokenizer& tokenizer,
                  grammar::Segments& segments);

}  // namespace weir::text
