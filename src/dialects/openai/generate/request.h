// Bodies of /generate, read as completions of OpenAI's (translation.h).
#pragma once

#include <string_view>

#include "dialects/openai/endpoints.h"
#include "dialects/openai/request.h"
#include "dialects/openai/translation.h"

namespace weir::openai::generate {

struct Asked {
  bool tgi = false;       // else SGLang's
  Serve other = nullptr;  // of /invocations: the route whose body it is, in place of `request`
  ApiError error;         // in the form of the API that `tgi` says
  Request request;
};

// The route that TGI's clients have called: /invocations answers with a list, /generate_stream always streams. It is
// also the one route of SageMaker's containers, by which vLLM's clients ask for all others: the body tells which.
enum class Route : uint8_t { kGenerate, kStream, kInvocations };

// Any thread. A refusal is in `out.error`: which API it is in, only the body says.
void read_generate(std::string_view body, Route route, Asked& out);

// sglang_request.cc, tgi_request.cc. Errors: 400 naming the member.
ApiError translate_sglang(const OrderedJson& body, Request& out);
ApiError translate_tgi(const OrderedJson& body, Route route, Request& out);

// `from`'s member in `to` under OpenAI's name, where it is there; a value of the wrong type is for read_request().
void carry_all(const OrderedJson& from, std::span<const RenamedMember> names, OrderedJson& to);
bool flag(const OrderedJson& body, std::string_view name);

}  // namespace weir::openai::generate
