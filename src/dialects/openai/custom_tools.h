// Custom tools of a chat, whose input is a text and no JSON. The model sees functions with one text, `input`
// (responses/tools.cc has those of the Responses API).
//
//   "tools": [{"type":"custom","custom":{"name","description","format":{"type":"text"} |
//              {"type":"grammar","grammar":{"syntax":"regex"|"lark","definition"}}}}]
//   "tool_choice": {"type":"custom","custom":{"name"}}
//   "tool_calls" of a message: [{"id","type":"custom","custom":{"name","input"}}], in a stream in one chunk each
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "dialects/openai/request.h"
#include "text/answer_parser.h"

namespace weir::openai {

// Makes functions of those in `tools` (a list), and notes their names in the request. Errors: 400.
ApiError custom_as_functions(nlohmann::ordered_json& tools, Request& request);
// The same of a message's tool_calls (a list of objects). False: a name or an input is no string.
bool custom_calls_as_functions(nlohmann::ordered_json& calls);
bool is_custom(const Request& request, std::string_view tool);

// Keeps calls of custom tools until they are whole.
class CustomCalls {
 public:
  // Leaves in `calls` what can be told: calls of functions, and custom ones that another call follows, whose arguments
  // are their input then.
  void hold(const Request& request, std::vector<text::ToolCallPiece>& calls);
  // The last, once the answer has ended; nothing: it was told, or is a function's.
  std::optional<text::ToolCallPiece> take();
  // Bytes of the call that is kept.
  uint64_t held() const { return open_ ? open_->name.size() + open_->arguments.size() : 0; }

 private:
  std::optional<text::ToolCallPiece> open_;
};

}  // namespace weir::openai
