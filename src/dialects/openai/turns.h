// The messages of a chat in shapes that more templates take: JSON as ConversationReader leaves it, with a role in each.
//
// Instructions are messages of the roles system and developer. Some templates take them as the first message alone, and
// fail on those behind it or leave them out without a word.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

namespace weir::openai {

using TurnJson = nlohmann::ordered_json;  // tools reach the model as the client wrote them

// A conversation with calls of tools for a template that knows of none: calls are what the assistant said, and results
// what the user did. Messages of one role that follow each other become one, since such templates want turns.
TurnJson as_plain_turns(const TurnJson& messages);
bool has_tools(const TurnJson& messages);

// Whether there are instructions behind the first message.
bool has_later_instructions(const TurnJson& messages);
// Whether the prompt that a template made of the messages lacks instructions of a later message. Linear in both.
bool lacks_instructions(const TurnJson& messages, std::string_view prompt);
// Where a conversation that is too long may begin: numbers of messages behind the first turn, ascending. Each is one of
// a user, so that no result of a tool stands without its call, or the last message.
std::vector<size_t> later_beginnings(const TurnJson& messages);
// Without what stands before the message, but instructions.
TurnJson beginning_at(const TurnJson& messages, size_t message);
// The last messages, `most` with all instructions before them, from one on with which a conversation may begin. All
// where there is none, or one lacks a role: they need not have been checked.
TurnJson last_turns(TurnJson messages, size_t most);
// Messages of a user that follow each other are one, and so are those of the assistant, for templates that want turns.
// One that has more than a role and a content stays by itself.
TurnJson as_alternating_turns(const TurnJson& messages);
// All instructions that are text, with an empty line between, as the first message; the others behind it.
TurnJson with_instructions_first(const TurnJson& messages);

}  // namespace weir::openai
