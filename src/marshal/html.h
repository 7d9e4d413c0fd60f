// Text in pages for people.
#pragma once

#include <string>
#include <string_view>

namespace weir::marshal {

// Text as it may stand between tags, and in an attribute with double quotes.
std::string escape_html(std::string_view text);

}  // namespace weir::marshal
