#include "base/open_metrics.h"

#include <algorithm>
#include <set>

namespace weir::base {
namespace {

constexpr std::string_view kHelp = "# HELP ", kType = "# TYPE ", kTotal = "_total", kCounter = " counter";

struct CommentParts {
  std::string_view keyword, name, rest;
};

CommentParts parts_of(std::string_view line) {
  auto rest = line.substr(kType.size());
  size_t space = std::min(rest.find(' '), rest.size());
  return {line.substr(0, kType.size()), rest.substr(0, space), rest.substr(space)};
}

// A counter whose name without `_total` would be none, or another family's, is one that OpenMetrics has no form for.
enum class Family : uint8_t { kOther, kCounter, kUnnamedCounter };

Family family_of(std::string_view type_line, const std::set<std::string_view>& others) {
  auto [keyword, name, rest] = parts_of(type_line);
  if (keyword != kType || rest != kCounter) return Family::kOther;
  const bool total = name.ends_with(kTotal) && !others.contains(name.substr(0, name.size() - kTotal.size()));
  return total ? Family::kCounter : Family::kUnnamedCounter;
}

// "# TYPE weir_x_total counter" → "# TYPE weir_x counter"; HELP alike.
void write_comment(std::string& out, std::string_view line, Family family) {
  auto [keyword, name, rest] = parts_of(line);
  if (family == Family::kCounter) name.remove_suffix(kTotal.size());
  if (family == Family::kUnnamedCounter && keyword == kType) rest = " unknown";
  (((out += keyword) += name) += rest) += '\n';
}

// A bucket's bound "5" → "5.0": 1.0 says that integers have a point or an exponent.
void write_sample(std::string& out, std::string_view line) {
  constexpr std::string_view kBound = ",le=\"";  // or first, behind a brace
  size_t at = line.find("{le=\""), end = std::string_view::npos;
  if (at == std::string_view::npos) at = line.find(kBound);
  if (at != std::string_view::npos) end = line.find('"', at + kBound.size());
  if (end == std::string_view::npos) {
    (out += line) += '\n';
    return;
  }
  auto bound = line.substr(at + kBound.size(), end - at - kBound.size());
  out += line.substr(0, end);
  if (bound.find_first_of(".eIN") == std::string_view::npos) out += ".0";
  (out += line.substr(end)) += '\n';
}

std::string_view take_line(std::string_view& text) {
  size_t end = text.find('\n');
  auto line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

// The names of all families that are no counters.
std::set<std::string_view> others_of(std::string_view text) {
  std::set<std::string_view> out;
  while (!text.empty()) {
    auto line = take_line(text);
    if (line.starts_with(kType) && !line.ends_with(kCounter)) out.insert(parts_of(line).name);
  }
  return out;
}

}  // namespace

// HELP stands before TYPE, which says whether the family is a counter.
std::string open_metrics(std::string_view text) {
  const auto others = others_of(text);
  std::string out;
  out.reserve(text.size() + text.size() / 16);
  while (!text.empty()) {
    auto line = take_line(text);
    if (line.empty()) continue;
    if (!line.starts_with(kHelp) && !line.starts_with(kType)) {
      write_sample(out, line);
      continue;
    }
    auto type = line.starts_with(kHelp) && text.starts_with(kType) ? text.substr(0, text.find('\n')) : line;
    write_comment(out, line, family_of(type, others));
  }
  return out += "# EOF\n";
}

}  // namespace weir::base
