// pass_on(): the fields of HTTP that go to an origin of any kind beside the request itself.
#pragma once

#include <array>
#include <cstdint>

#include "msg/call.h"
#include "wire/exchange.h"

namespace weir::forward {

// The trace; the tenant's number, where there is one; through how many weirs it has come (wire/hops.h).
void pass_on(const msg::Call& call, wire::Fields& fields);

std::array<char, 16> hex_digits(uint64_t number);

}  // namespace weir::forward
