// A time of day as text.
#pragma once

#include <string>

#include "base/env.h"

namespace weir::base {

// Appends the time in UTC with microseconds: "2027-01-31T08:15:00.000123Z" (RFC 3339).
void append_utc(std::string& out, WallTime at);

}  // namespace weir::base
