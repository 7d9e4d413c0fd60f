// How long a client waits for its call: the field `grpc-timeout`, 1 to 8 ASCII digits and a unit, H M S m u n
// (grpc/doc/PROTOCOL-HTTP2.md, "Timeout"), or Connect's `connect-timeout-ms`, at most ten digits.
#pragma once

#include <optional>
#include <string_view>

#include "base/env.h"
#include "wire/exchange.h"

namespace weir::wire {

// Nothing when malformed. "0n" is a timeout of zero; what no Duration can hold becomes the longest there is.
std::optional<base::Duration> parse_grpc_timeout(std::string_view text);

std::optional<base::Duration> parse_connect_timeout(std::string_view text);

// now + timeout, or kNever where that is past the end of time.
base::Time deadline_after(base::Time now, base::Duration timeout);

}  // namespace weir::wire
