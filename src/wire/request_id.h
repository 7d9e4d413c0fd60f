// Request ids: those that clients bring, and those that are made for them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "wire/exchange.h"

namespace weir::wire {

// The fields that say what a request is called; the first of each, found in one pass.
struct IdFields {
  std::string_view id, content_type;  // x-request-id; data() is null for one that is not there
  bool traced = false;                // there is a traceparent
};
IdFields id_fields_of(const Fields& fields);

// Whether an id may go back to its client and into the log.
bool is_safe_id(std::string_view id);
// 16 hexadecimal digits of random bits, in any order.
std::array<char, 16> make_id(uint64_t bits);

}  // namespace weir::wire
