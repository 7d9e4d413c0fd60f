// The tables of routes: which path is answered by which function, and what a caller must be allowed to do for it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "dialects/openai/endpoints.h"
#include "wire/router.h"

namespace weir::openai {

struct RouteRow {
  const char* method;
  const char* path;
  Serve serve;
  wire::Permission permission;
  uint8_t under = 0;                   // of kOpenAiRows alone: the places where the path is
  std::string_view content_type = {};  // wire::Route::content_type
};

// OpenAI's, and vLLM's, Cohere's and Text Embeddings Inference's beside them. Their places: each of openai.prefixes; no
// prefix; Azure OpenAI's /deployments/{deployment} of prefixes that end with kAzurePrefix.
inline constexpr uint8_t kUnderPrefix = 1, kAtRoot = 2, kUnderDeployment = 4;
inline constexpr std::string_view kAzurePrefix = "/openai";
extern const std::span<const RouteRow> kOpenAiRows;
// Each of these in its API's form.
extern const std::span<const RouteRow> kOllamaRows, kAnthropicRows, kSglangRows, kTgiRows, kLlamaRows;

}  // namespace weir::openai
