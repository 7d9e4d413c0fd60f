// How this protocol says no: {"error":{"message","type","param","code"}} under the HTTP status of the reason.
//
//   400 invalid_request_error     401 … code invalid_api_key      404 … code model_not_found
//   429 rate_limit_error, with Retry-After                        500, 503, 504 server_error
// A prompt that does not fit the context is 400 with code context_length_exceeded. Under the routes of Ollama's API the
// body is {"error":"…"}, in Text
// Generation Inference's {"error":"…","error_type":"validation"}, where 422 stands for 400, in llama.cpp's
// {"error":{"code","message","type"}} with the status as its code, and of such a prompt "n_prompt_tokens" and "n_ctx"
// (of a chat at /chat/completions, which has no prefix, too),
// under those of Anthropic's {"type":"error","error":{"type","message"},"request_id"}, with
// "details":{"error_code","unsupported":[…]} in it where clients know another way.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "marshal/generation_params.h"
#include "wire/exchange.h"

namespace weir::openai {

// A prompt that does not fit the context.
struct Overflow {
  uint64_t tokens = 0;   // of the prompt; 0: they have not been counted
  uint32_t context = 0;  // 0: it is none
};

struct ApiError {
  base::Status status;
  std::string param;      // the member of the request that is at fault; empty = none in particular
  std::string_view code;  // a literal; empty = what goes with the status, if anything
  Overflow overflow{};    // where its API tells it

  bool ok() const { return status.ok(); }
};

struct RenamedMember {
  std::string_view name, openai;  // as its API calls it, as OpenAI's chats do
};
// The error as the request's API has it: in its param and at the beginning of its text. `[]` in both names stands for a
// place in a list that is the client's, which is told; a name without it has the place left out.
ApiError in_names(std::span<const RenamedMember> names, ApiError error);

ApiError refuse(std::string_view param, std::string text);
inline ApiError refuse(marshal::ParamError error) { return {std::move(error.status), std::string(error.param), {}}; }
inline ApiError refuse(base::Status status) { return {std::move(status), {}, {}}; }

// The code of a request for a `thread` of Anthropic's API: its clients ask again without one where they read it.
inline constexpr std::string_view kNoThreads = "thread_unsupported_request";

std::string error_json(const ApiError& error);
// `{"error":…,"error_type":…}` of TGI.
std::string tgi_error_json(const base::Status& status);
// `{"error":{"code":…,"message":…,"type":…}}` of llama.cpp.
std::string llama_error_json(const ApiError& error);
// `{"type":"error",…}` of Anthropic's API, with the request's id.
std::string anthropic_error_json(const wire::Exchange& exchange, int status, std::string_view text);
// The same of a request without a connection.
std::string anthropic_error_json(int status, std::string_view text);
// Anthropic's clients look for the request's id in the field "request-id".
void tell_id(wire::Exchange& exchange);
// The whole answer.
void respond(wire::Exchange& exchange, const ApiError& error);
// wire::Router::ErrorForm, of each API.
void respond_status(wire::Exchange& exchange, int status, std::string_view text);
void respond_ollama_status(wire::Exchange& exchange, int status, std::string_view text);
void respond_tgi_status(wire::Exchange& exchange, int status, std::string_view text);
void respond_llama_status(wire::Exchange& exchange, int status, std::string_view text);
void respond_anthropic_status(wire::Exchange& exchange, int status, std::string_view text);

}  // namespace weir::openai
