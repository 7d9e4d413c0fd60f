#include "marshal/json_path.h"

#include <algorithm>
#include <vector>

#include "base/encoding.h"
#include "marshal/json_cursor.h"

namespace weir::marshal {
namespace {

constexpr size_t kFurthest = size_t(1) << 20, kLongestName = 64, kMostSteps = 8;

struct Level {
  bool object;
  bool named = false;       // an object's next string is no name
  std::string_view name{};  // of the member, as it is written
  size_t index = 0;         // of the element
};

// Behind the string that begins there, or the end.
size_t past_string(std::string_view text, size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at)
    if (text[at] == '\\') ++at;
  return std::min(at + 1, text.size());
}

std::string step(const Level& level) {
  if (!level.object) return '[' + std::to_string(level.index) + ']';
  return level.name.empty() ? "" : '.' + base::presentable(level.name, kLongestName);
}

}  // namespace

std::string json_path(std::string_view document, size_t at) {
  if (at > kFurthest) return {};
  const std::string_view before = document.substr(0, at);
  std::vector<Level> levels;
  for (size_t i = 0; i < before.size();) {
    const char c = before[i];
    const size_t from = i;
    i = c == '"' ? past_string(before, i) : i + 1;
    if (c == '{' || c == '[') levels.push_back({c == '{'});
    if (levels.size() > JsonCursor::kMaxDepth) return {};
    if (levels.empty()) continue;
    Level& level = levels.back();
    if (c == '"' && level.object && !level.named) level.name = before.substr(from + 1, i - from - 2);
    if (c == ':') level.named = true;
    if (c == ',') ++level.index, level.named = false, level.name = {};
    if (c == '}' || c == ']') levels.pop_back();
  }
  std::string path;
  for (size_t i = 0; i < levels.size() && i < kMostSteps; ++i) path += step(levels[i]);
  if (levels.size() > kMostSteps) path += "…";
  return path.starts_with('.') ? path.substr(1) : path;
}

}  // namespace weir::marshal
