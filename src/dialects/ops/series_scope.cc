#include "dialects/ops/series_scope.h"

#include <algorithm>

namespace weir::ops {
namespace {

// Cuts the value of a label, up to its closing quote, off the text, and reads its escapes.
std::string take_value(std::string_view& text) {
  std::string out;
  while (!text.empty() && text[0] != '"') {
    if (text[0] == '\\' && text.size() > 1) {
      text.remove_prefix(1);
      out += text[0] == 'n' ? '\n' : text[0];
    } else {
      out += text[0];
    }
    text.remove_prefix(1);
  }
  text.remove_prefix(std::min<size_t>(text.size(), 1));
  return out;
}

}  // namespace

bool in_scope(std::string_view series, const base::ModelScope& scope) {
  if (series.starts_with("llamacpp:")) return false;
  const size_t brace = series.find_first_of("{ ");
  if (brace == series.npos || series[brace] != '{') return true;
  series.remove_prefix(brace + 1);
  while (!series.empty() && series[0] != '}') {
    const size_t equals = series.find("=\"");
    if (equals == series.npos) return true;
    const std::string_view name = series.substr(0, equals);
    series.remove_prefix(equals + 2);
    const std::string value = take_value(series);
    if ((name == "model" || name == "model_name") && !scope.allows(value)) return false;
    if (series.starts_with(',')) series.remove_prefix(1);
  }
  return true;
}

std::string lines_in_scope(std::string_view text, const base::ModelScope& scope) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t size = std::min(text.find('\n'), text.size() - 1) + 1;
    if (text[0] == '#' || in_scope(text.substr(0, size), scope)) out += text.substr(0, size);
    text.remove_prefix(size);
  }
  return out;
}

}  // namespace weir::ops
