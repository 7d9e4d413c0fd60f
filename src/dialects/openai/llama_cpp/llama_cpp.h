// The native routes of llama.cpp's server, on the completions of OpenAI's: /completion, /infill, /apply-template,
// /props, /slots, /lora-adapters; what its clients ask beside them (/tokenize, /detokenize, /embedding) is with the
// routes of OpenAI's dialect.
//
// Reference: github.com/ggml-org/llama.cpp, tools/server/README.md. The model is `model`, or the one that requests
// without a name mean.
#pragma once

#include <string_view>

#include "dialects/openai/answer.h"
#include "dialects/openai/endpoints.h"
#include "dialects/openai/llama_cpp/timings.h"

namespace weir::openai::llama_cpp {

// endpoints.cc
void completion(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void infill(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void apply_template(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void props(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);

// slots.cc
void slots(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void slot_action(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);

// lora.cc
void lora_adapters(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void set_lora_adapters(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
inline constexpr size_t kMaxLoraScales = 256;  // of one request
inline constexpr double kMostScale = 1e6;
// [{"id","scale"},…]. Any thread.
bool read_scales(marshal::FieldReader& fields, std::vector<LoraScale>& out);
// The model of the request is the adapter that its `lora` names. Errors: 400; those of find_model().
ApiError choose_adapter(OpenAiState& state, wire::Exchange& exchange, Request& request);

// request.cc: a body as a completion of OpenAI's. Any thread. Errors: 400 naming the member.
enum class Route : uint8_t { kCompletion, kInfill };
ApiError read_body_of(std::string_view body, Route route, Request& out);

// settings.cc: `"name":value` of what is in force for a request, with a comma before each; and of a request that says
// nothing.
std::vector<Member> settings_of(const Request& request, const msg::TextSpec& spec);

// answer.cc: who answers; streams, and in one piece.
std::unique_ptr<Answer> make_answer(OpenAiState& state, wire::Exchange& exchange, Kind kind, Request request);

}  // namespace weir::openai::llama_cpp
