// Renders templates for tests.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "jinja/template.h"

namespace jinja {

using Json = nlohmann::json;
using Kind = Error::Kind;

// The kind of the error; nothing where there is none.
inline constexpr std::optional<Kind> kOk;
inline std::optional<Kind> kind_of(const Result<std::string>& result) {
  return result ? kOk : std::optional(result.error().kind);
}

inline Result<std::string> render(std::string_view source, const Json& variables = Json::object(),
                                  const Budget& budget = {}) {
  auto parsed = Template::parse(source);
  if (!parsed) return parsed.error();
  return (*parsed)->render(variables, budget);
}

inline std::optional<Kind> kind(std::string_view source, const Json& variables = Json::object()) {
  return kind_of(render(source, variables));
}

}  // namespace jinja
