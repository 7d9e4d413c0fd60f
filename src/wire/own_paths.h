// The paths that are weir's own, for settings that say where other endpoints are: they must not stand before these.
#pragma once

#include <initializer_list>
#include <string_view>

#include "base/setting.h"

namespace weir::wire {

// The part of weir's own that the path is, or is below: "/v2" of "/v2/models". Empty: none.
std::string_view own_path(std::string_view path);

// The row, whose values are paths that are none of weir's own, or are below one of `except`.
base::Setting beside_own_paths(base::Setting s, std::initializer_list<std::string_view> except);

}  // namespace weir::wire
