#include "base/model_scope.h"

#include <algorithm>
#include <utility>

namespace weir::base {

// Only the last `*` is gone back to: what an earlier one took can be taken by the later one as well.
bool matches_glob(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = pattern.npos, from = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++, from = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p, ++t;
    } else if (star != pattern.npos) {
      p = star + 1, t = ++from;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

ModelScope::ModelScope(std::vector<std::string> patterns) : patterns_(std::move(patterns)) {
  std::sort(patterns_.begin(), patterns_.end());
  for (const auto& pattern : patterns_) (text_ += pattern) += '\n';
}

bool ModelScope::allows(std::string_view model) const {
  return std::any_of(patterns_.begin(), patterns_.end(), [&](const auto& p) { return matches_glob(p, model); });
}

}  // namespace weir::base
