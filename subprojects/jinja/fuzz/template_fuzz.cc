// Any bytes as a template: refused, or rendered within its limits.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "jinja/template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using Kind = jinja::Error::Kind;
  static const auto kVariables = nlohmann::json::parse(R"({"bos_token": "<s>", "add_generation_prompt": true,
    "messages": [{"role": "user", "content": "hé"}, {"role": "assistant", "content": null, "tool_calls": [{"id": 1.5}]}],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"a": [1, true, null]}}}]})");
  auto parsed = jinja::Template::parse({reinterpret_cast<const char*>(data), size});
  if (!parsed) return 0;
  auto text = (*parsed)->render(kVariables);
  if (text || text.error().kind == Kind::kTemplate || text.error().kind == Kind::kLimit) return 0;
  std::fprintf(stderr, "broken: without a budget an error is of the template or of its limits\n");
  std::abort();
}
