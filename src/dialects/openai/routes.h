// The tables of routes: which path is answered by which function, and what a caller must be allowed to do for it.
#pragma once

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
};

// Under each of the prefixes.
extern const std::span<const RouteRow> kUnderPrefix;
// Azure OpenAI's, under /deployments/{deployment} of the prefixes that end with kAzurePrefix. It has the others there,
// too.
inline constexpr std::string_view kAzurePrefix = "/openai";
extern const std::span<const RouteRow> kDeploymentRows;
// Under none: vLLM's beside OpenAI's, Cohere's, Text Embeddings Inference's.
extern const std::span<const RouteRow> kAtRoot;
// Each of these in its API's form.
extern const std::span<const RouteRow> kOllamaRows, kAnthropicRows, kSglangRows, kTgiRows, kLlamaRows;

}  // namespace weir::openai
