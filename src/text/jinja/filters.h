// The two tables of filters.
#pragma once

#include <string_view>

#include "text/jinja/ast.h"

namespace weir::text::jinja {

struct FilterEntry {
  std::string_view name;
  FilterFn filter;
};

FilterFn find_list_filter(std::string_view name);

}  // namespace weir::text::jinja
