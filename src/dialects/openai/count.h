// How many tokens a prompt has, without an answer of the model: Anthropic's count_tokens, OpenAI's input_tokens, and
// llama.cpp's of chats.
#pragma once

#include <cstddef>
#include <string>

#include "dialects/openai/request.h"
#include "dialects/openai/state.h"
#include "wire/router.h"

namespace weir::openai {

// Makes the prompt of a chat as answer() does, and answers with `written`: the count as the API's JSON has it.
void count_prompt(OpenAiState& state, wire::Exchange& exchange, Request&& request, std::string (*written)(size_t));

// POST /chat/completions/input_tokens
void count_chat(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);

}  // namespace weir::openai
