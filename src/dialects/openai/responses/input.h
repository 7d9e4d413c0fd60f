// The items and the tools of a body, as the messages and the functions of a chat. Any thread.
#pragma once

#include <string>
#include <string_view>

#include "dialects/openai/request.h"
#include "dialects/openai/responses/items.h"
#include "dialects/openai/translation.h"

namespace weir::openai::responses {

struct StoredView;

// The member where it is a text, else "".
std::string_view text_member(const OrderedJson& object, std::string_view name);

// The item stands for one of a stored response.
bool is_reference(const OrderedJson& item);

// input.cc: `instructions`, the items of the conversation, and `input` into out["messages"]. What items refer to comes
// from `stored.referenced`; where that is null, they are left out, and `request.references` says where they are.
// Errors: 400 naming the item; 404.
ApiError read_input(const OrderedJson& body, const StoredView& stored, OrderedJson& out, Request& request);

// tools.cc: `tools` and `tool_choice` into those of a chat. Tools that only OpenAI's servers run are left out;
// `request.client_tools` has those whose calls the client knows by another name, or as other items. Errors: 400, also
// where the choice demands a tool that is left out.
ApiError read_client_tools(const OrderedJson& body, OrderedJson& out, Request& request);

// The name by which the model knows a tool of a namespace (or of none: "").
std::string shown_name(std::string_view name_space, std::string_view name);

// Adds to `function`, which has a name, the description and the parameters of a custom tool, a function of one text. A
// regular expression is held to, or refused, where the tool has to be called; of another grammar the model is told.
void describe_custom(const OrderedJson& tool, OrderedJson& function);
// The arguments of its call.
std::string custom_arguments(std::string_view input);
// That text again, as far as it has come. Where the model has written something else, it is what the model has
// written.
std::string custom_input(std::string_view arguments);

}  // namespace weir::openai::responses
