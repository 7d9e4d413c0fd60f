// Where an origin has OpenAI's API. One with a path in its URL has it there, as OpenAI's clients have a base_url:
//
//   http://a:8000                        /v1/chat/completions
//   https://a.example/openai/v1/         /openai/v1/chat/completions
//   https://a.example/p?version=1        /p/chat/completions?version=1
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "net/url.h"

namespace weir::forward {

// OpenAI's newer models, which Azure has as well, refuse the older name of an answer's length.
inline bool is_azure(const net::Url& origin) { return origin.host.ends_with(".azure.com"); }
inline bool has_openai_models(const net::Url& origin) { return origin.host == "api.openai.com" || is_azure(origin); }

inline bool has_base_path(const net::Url& origin) { return origin.target != "/"; }

// `method`: "/chat/completions".
inline std::string api_path(const net::Url& origin, std::string_view method) {
  if (!has_base_path(origin)) return "/v1" + std::string(method);
  std::string_view path = origin.target;
  const std::string_view query = path.substr(std::min(path.find('?'), path.size()));
  path.remove_suffix(query.size());
  while (path.ends_with('/')) path.remove_suffix(1);
  return std::string(path).append(method).append(query);
}

// `target`: as servers without a base path have it, "/v1/rerank" or "/rerank".
inline std::string target_at(const net::Url& origin, std::string_view target) {
  if (!has_base_path(origin)) return std::string(target);
  return api_path(origin, target.starts_with("/v1/") ? target.substr(3) : target);
}

}  // namespace weir::forward
