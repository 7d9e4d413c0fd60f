// Bearer keys from the configuration, which decide who may ask.
#pragma once

#include <cstdint>
#include <string_view>

#include "marshal/secrets.h"
#include "wire/exchange.h"

namespace weir::openai {

// Whether the request carries one of `keys` as `Authorization: Bearer …`; always, if there are none.
bool admits(const marshal::Secrets& keys, const wire::Request& request);

// On whose behalf a request comes: the key's, or, without keys, the address's.
uint64_t tenant(const wire::Request& request, const marshal::Secrets& keys);

// Which prompts of one tenant may share cached beginnings: those of the same `salt` text. 0 without one.
uint64_t cache_salt(std::string_view salt);

}  // namespace weir::openai
