// printf-style formatting of str: `'%s' % value`.
#pragma once

#include <string_view>

#include "value.h"

namespace jinja {

class Evaluation;

// `arguments` as behind Python's %: a tuple, a dict whose values are named by %(key)s, or one value. Fails as Python
// does: too few, too many, of another type.
Value formatted(Evaluation& evaluation, std::string_view format, const Value& arguments);

}  // namespace jinja
