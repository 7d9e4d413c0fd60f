// The limits of a grant (base/usage_limiter.h) as text, in files and in claims of tokens:
//
//   {requests_per_second: 20, concurrent: 8, tokens_per_minute: 100000, bytes_per_minute: 64MiB}
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/usage_limiter.h"
#include "base/yaml.h"

namespace weir::auth {

inline constexpr std::array<std::string_view, 4> kLimitNames = {"requests_per_second", "concurrent",
                                                                "tokens_per_minute", "bytes_per_minute"};

// Sets the limit of that name, which is one of kLimitNames. Errors: INVALID_ARGUMENT "expected …".
base::Status set_limit(base::UsageLimits& limits, std::string_view name, std::string_view text);
// Reads a map of limits into `limits`; the others stay as they are.
void read_limits(const base::Yaml& node, base::Complaints& complaints, base::UsageLimits& limits);
// "{requests_per_second: 20}", in one line of YAML; "{}" where there are none.
std::string show_limits(const base::UsageLimits& limits);

}  // namespace weir::auth
