// base64url: base64 with '-' and '_' for '+' and '/' (RFC 4648 §5).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weir::base {

enum class Base64Url : bool {
  // As JSON Web Signatures have it (RFC 7515 §2): nothing on padding, on a byte outside of the alphabet, on a length
  // that cannot be, and where the last character has bits that no byte takes. So each value has one text, and one token
  // cannot be written in two ways.
  kStrict,
  // As Connect has it: with padding or without, and of either alphabet; as base64_decode() else.
  kLenient,
};
std::optional<std::string> base64url_decode(std::string_view text, Base64Url form);

}  // namespace weir::base
