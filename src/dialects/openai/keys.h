// Who may ask: bearer keys from the configuration.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "wire/exchange.h"

namespace weir::openai {

// Whether the request carries one of `keys` as `Authorization: Bearer …`; always, if there are none. The time it takes
// depends on the keys alone, not on how much of one was right.
bool admits(const std::vector<std::string>& keys, const wire::Request& request);

// On whose behalf a request comes: the key's, or, without keys, the host's.
uint64_t tenant(const wire::Request& request, const std::vector<std::string>& keys);

// Which prompts may share cached beginnings: those of the same key and the same `salt` text. 0 for neither.
uint64_t cache_salt(const wire::Request& request, const std::vector<std::string>& keys, std::string_view salt);

}  // namespace weir::openai
