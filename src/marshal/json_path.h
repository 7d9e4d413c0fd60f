// Where in a JSON document a byte is, in the words of its author.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weir::marshal {

// The names and indices that lead to the value at byte `at`, as inputs[0].shape; empty on the outermost level, and
// where the byte is further than 1 MiB or JsonCursor::kMaxDepth levels in. What is before it is well formed, or has not
// been read: then the path is a guess. Names are cut, and so are long paths.
[[gnu::cold]] std::string json_path(std::string_view document, size_t at);

}  // namespace weir::marshal
