// Any bytes as a chat template: refused, or rendered within its bounds.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weir;  // NOLINT: a program of one file
  static const auto kVariables = nlohmann::json::parse(R"({"bos_token": "<s>", "add_generation_prompt": true,
    "messages": [{"role": "user", "content": "hé"}, {"role": "assistant", "content": null, "tool_calls": [{"id": 1.5}]}],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"a": [1, true, null]}}}]})");
  auto parsed = text::ChatTemplate::parse({reinterpret_cast<const char*>(data), size});
  if (!parsed) return 0;
  auto out = (*parsed)->render(kVariables);
  if (out || out.error().code == base::Code::kInvalidArgument || out.error().code == base::Code::kResourceExhausted)
    return 0;
  std::fprintf(stderr, "broken: an error is one of the two\n");
  std::abort();
}
