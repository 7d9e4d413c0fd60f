// Requests of Ollama's API, read as requests of OpenAI's.
//
// Reference: github.com/ollama/ollama, docs/api.md. `options` has the model's parameters; those that say how a model is
// to be loaded (num_ctx, num_gpu, …) change nothing, because the repository says it. What does not fit the context is
// shortened unless `truncate` is false (Overlong). Beyond it a chat takes `tool_choice`, as OpenAI has it.
#pragma once

#include <string>
#include <string_view>

#include "dialects/openai/request.h"

namespace weir::openai::ollama {

struct ChatRequest {
  Kind kind = Kind::kChat;  // kCompletion: a prompt that is given to the model as it is
  bool loads = false;       // it has no messages: asks that the model be loaded (or unloaded), and nothing more
  bool unloads = false;     // keep_alive: 0
  Request request;          // with `model` alone where it loads
};

// POST /api/chat and /api/generate. Any thread. Errors: 400 naming the member.
ApiError read_chat(std::string_view body, ChatRequest& out);
ApiError read_generate(std::string_view body, ChatRequest& out);
// POST /api/embed, where `loads` says that there is no text, and /api/embeddings, which has one `prompt`.
ApiError read_embed(std::string_view body, ChatRequest& out);
ApiError read_embeddings(std::string_view body, Request& out);
// A body that names a model, by `model` or `name`, and whatever else it has.
struct Named {
  std::string model;
  bool stream = true;
};
ApiError read_named(std::string_view body, Named& out);

}  // namespace weir::openai::ollama
