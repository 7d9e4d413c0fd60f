// base64url without padding, as JSON Web Signatures have it (RFC 7515 §2, RFC 4648 §5).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weir::auth {

// Strict: nothing on padding, on a byte outside of the alphabet, on a length that cannot be, and where the last
// character has bits that no byte takes. So each value has one text, and one token cannot be written in two ways.
std::optional<std::string> base64url_decode(std::string_view text);

}  // namespace weir::auth
