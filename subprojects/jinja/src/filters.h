// The two tables of filters: on text (filters.cc) and on lists (list_filters.cc).
#pragma once

#include <string_view>

#include "ast.h"

namespace jinja {

struct FilterEntry {
  std::string_view name;
  FilterFn filter;
};

FilterFn find_list_filter(std::string_view name);

}  // namespace jinja
