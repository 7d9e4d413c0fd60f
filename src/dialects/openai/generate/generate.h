// SGLang's own routes and those of Text Generation Inference (TGI), on the completions of OpenAI's: /generate,
// /generate_stream, /invocations, and what their clients ask of the server beside these.
//
// Reference: github.com/sgl-project/sglang, entrypoints/http_server.py and managers/io_struct.py;
// github.com/huggingface/text-generation-inference, docs/openapi.json. /generate is a route of both: a body with
// `inputs` is TGI's, one with `text` or `input_ids` SGLang's. The model is `model`, a member that neither of the two
// has, or the one that requests without a name mean.
#pragma once

#include "dialects/openai/answer.h"
#include "dialects/openai/endpoints.h"

namespace weir::openai::generate {

// endpoints.cc
void generate(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void generate_stream(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);  // TGI
void invocations(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);  // TGI: a list of answers
// TGI's POST /, as Hugging Face's clients ask the address of a server: the same of a model that makes tokens, else
// embeddings as Text Embeddings Inference's /embed gives them.
void root(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void health_generate(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
// about.cc: SGLang's /get_model_info, /get_server_info and /flush_cache, TGI's /info.
void model_info(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void server_info(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void flush_cache(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void info(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);

// sglang_answer.cc, tgi_answer.cc: who answers; streams, and in one piece.
std::unique_ptr<Answer> sglang_answer(OpenAiState& state, wire::Exchange& exchange, Kind kind, Request request);
std::unique_ptr<Answer> tgi_answer(OpenAiState& state, wire::Exchange& exchange, Kind kind, Request request);

}  // namespace weir::openai::generate
