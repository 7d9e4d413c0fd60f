// Tools: which a chat offers, which it has to call, and the form that makes the model call them.
//
//   "tools": [{"type": "function", "function": {"name": "f", "description": …, "parameters": {a JSON schema}}}]
//   "tool_choice": "auto" | "none" | "required" | {"type": "function", "function": {"name": "f"}} |
//                  {"type": "allowed_tools", "allowed_tools": {"mode": "auto" | "required", "tools": [that of one, …]}}
// With "auto" the model's answer is read in the format of its family (msg::ToolFormat); where that is not known, tools
// are refused; with a `response_format` of JSON beside it a grammar holds the model to a call, or to that form. Else a
// grammar makes the model call one, or the one that is named.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "dialects/openai/request.h"
#include "marshal/field_reader.h"
#include "msg/spec.h"
#include "msg/text_codec.h"

namespace weir::openai {

inline constexpr size_t kMaxTools = 128, kMaxToolName = 128;

// The value of `tool_choice`. False: it is refused.
bool read_tool_choice(marshal::FieldReader& fields, Request& request);

// Takes those out of `tools` (a list) that the request does not allow. Errors: 400, naming one that is not there.
ApiError keep_allowed(nlohmann::ordered_json& tools, const Request& request);

// Checks a function: its name, description, strict and parameters. `place`: where it is in the body, for the error's
// text. Errors: 400.
ApiError check_function(const nlohmann::ordered_json& function, const std::string& place);

// Checks `tools` (a list), and sets what the request says of calls: calls_tools, call_form. Errors: 400.
ApiError read_tools(const nlohmann::ordered_json& tools, Request& request);

// Once the prompt has been made: the form that the request's calls need, and how thoughts stand before it. Errors: 400
// where a call cannot be made, or not be read.
ApiError settle_tools(Request& request, const msg::TextSpec& spec);

// How the answer is read; neither tools nor thoughts: it is text as it stands.
msg::AnswerFormat answer_format(const Request& request, const msg::TextSpec& spec);

}  // namespace weir::openai
