// pass_on(): the fields of HTTP that go to an origin of any kind beside the request itself.
#pragma once

#include <cstdint>
#include <string>

#include "msg/call.h"
#include "wire/exchange.h"

namespace weir::forward {

// The tenant's number (`weir-tenant`), where there is one.
void pass_on(const msg::Call& call, wire::Fields& fields);

// Sixteen of them.
std::string hex_digits(uint64_t number);

}  // namespace weir::forward
