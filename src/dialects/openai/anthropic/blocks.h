// Content blocks of Anthropic's messages, as parts of OpenAI's.
//
// Offered: text, images in base64, documents that are text, results of searches, references to tools. PDF is not read,
// and nothing is fetched from elsewhere.
#pragma once

#include <string>
#include <string_view>

#include "dialects/openai/translation.h"

namespace weir::openai::anthropic {

// The block's `type`; empty where it has none.
std::string_view type_of(const OrderedJson& block);

// 400, naming `messages`.
ApiError wrong_message(std::string what);

// Adds the block's parts to a list of them. Throws as translate() says. Errors: 400.
ApiError add_block(const OrderedJson& block, OrderedJson& parts);

// The content of a message: a list of parts, or the text where that is all of it, which every template takes.
OrderedJson content_of(OrderedJson parts);

// The content that a text or a list of blocks makes. Throws and errors: as add_block().
ApiError read_content(const OrderedJson& from, OrderedJson& out);

// The text of a text or of a list of text blocks, with a line feed between. Throws as translate() says. False: it is
// neither.
bool read_text(const OrderedJson& from, std::string& out);

// client_tools.cc: a tool that is known by its type alone, as the description and the parameters of a function. False:
// it is none that clients run.
bool describe_client_tool(std::string_view type, OrderedJson& function);

}  // namespace weir::openai::anthropic
