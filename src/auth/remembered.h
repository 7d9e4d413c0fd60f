// A caller as a text, for work that is done when the caller and perhaps the process have gone. One line each, percent
// encoded: "key" name tenant, or "grant" name tenant protocol and what was allowed: limits, then patterns of models
// behind "models". No secret is among them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "auth/grant.h"
#include "wire/identity.h"

namespace weir::auth {

enum class RememberedBy : uint8_t {
  kKey,    // by name: what the key allows is looked up when it is needed
  kGrant,  // a token or a certificate, which is not listed anywhere
};
struct Remembered {
  RememberedBy by = RememberedBy::kKey;
  Grant grant;  // kKey: name and tenant alone
};

std::string show_remembered(const wire::Identity& identity, RememberedBy by);
// Nothing: not a text of show_remembered().
std::optional<Remembered> read_remembered(std::string_view text);

}  // namespace weir::auth
