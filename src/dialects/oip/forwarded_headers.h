// Headers of HTTP, and metadata of gRPC, that models get as parameters of their requests (oip.forward_headers).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "msg/call.h"
#include "wire/exchange.h"

namespace weir::oip {

inline constexpr size_t kMostForwarded = 32, kMostForwardedBytes = 8 << 10;  // of names and values of one request

// A name in small letters, or the beginning of one and a '*'. Errors: INVALID_ARGUMENT.
base::Status check_header_pattern(std::string_view pattern);

// Adds what matches, with names in small letters and values as strings; keys and cookies where their whole name is a
// pattern alone. What the request says itself stays, also where
// a header comes again. Headers whose names are parameters of the protocol (priority, timeout, all with a '_') are no
// parameters. Errors: INVALID_ARGUMENT for more than the bounds above, and for a value that is not UTF-8, before
// anything is added.
base::Status forward_headers(const std::vector<std::string>& patterns, const wire::Fields& fields,
                             msg::Parameters& parameters);

}  // namespace weir::oip
