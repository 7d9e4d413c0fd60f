#include "dialects/evergreen/graph/node.h"

#include "base/encoding.h"

namespace weir::evergreen {

std::string describe_node(std::string_view id) {
  constexpr size_t kShown = 80;
  return "node '" + std::string(base::cut_text(id, kShown)) + (id.size() <= kShown ? "'" : "…'");
}

std::string describe_fragment(std::string_view id, int64_t seq) {
  return describe_node(id) + ", fragment " + std::to_string(seq);
}

}  // namespace weir::evergreen
