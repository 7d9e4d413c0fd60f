// The JSON of a JSON Web Token: its header and its claims, read strictly. A member that is there twice, a value of
// another type than its claim has, and more than kMostMembers members are errors. A claim that is null is not there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace weir::auth {

inline constexpr size_t kMostMembers = 256;  // of one JSON object

struct JwtHeader {
  std::string algorithm;  // alg
  std::string key_id;     // kid, or empty
  std::string type;       // typ, or empty
  bool critical = false;  // crit is there

  // Errors: UNAUTHENTICATED.
  static base::Result<JwtHeader> parse(std::string_view json);
};

// Texts at a path of the claims: of a string, its words; of an array of strings, each of these; of a number, its text.
struct ClaimTexts {
  enum class Words : uint8_t { kWhole, kSplit };       // whether blanks separate the words of a string (RFC 6749 §3.3)
  enum class Others : uint8_t { kRefused, kSkipped };  // values of another type

  std::string_view path;
  Words words = Words::kSplit;
  Others others = Others::kRefused;
  bool found = false;
  std::vector<std::string> texts{};
};

// The registered claims (RFC 7519 §4.1).
struct RegisteredClaims {
  ClaimTexts issuer{"iss", ClaimTexts::Words::kWhole}, subject{"sub", ClaimTexts::Words::kWhole},
      audience{"aud", ClaimTexts::Words::kWhole};
  std::optional<int64_t> expires, not_before, issued;  // seconds since 1970

  // Reads them, and what stands at the paths of `others`. Errors: UNAUTHENTICATED.
  base::Status parse(std::string_view json, std::span<ClaimTexts> others);
};

}  // namespace weir::auth
