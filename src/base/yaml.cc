#include "base/yaml.h"

#include <cctype>
#include <cstring>

#include "base/encoding.h"

namespace weir::base {

std::string place_in_file(std::string_view file, uint32_t line, uint32_t column) {
  return std::string(file) + ':' + std::to_string(line) + ':' + std::to_string(column) + ": ";
}

const Yaml* Yaml::find(std::string_view key) const {
  for (const auto& e : entries)
    if (e.key == key) return &e.value;
  return nullptr;
}

void Complaints::at(uint32_t line, uint32_t column, std::string_view text) {
  if (lines_.size() < kMaxComplaints)
    lines_.push_back(place_in_file(file_, line, column) + std::string(text));
  else if (lines_.size() == kMaxComplaints)
    lines_.push_back(file_ + ": more mistakes follow, which are not shown");
}

void Complaints::unknown_key(const Yaml::Member& entry, std::string_view where,
                             const std::vector<std::string_view>& known) {
  if (lines_.size() >= kMaxComplaints) return at(entry.line, entry.column, "");
  std::string text = "unknown key '" + std::string(cut_text(entry.key, kMaxShownKey)) + "'";
  if (!where.empty()) text += " in '" + std::string(where) + "'";
  if (auto near = near_miss(entry.key, known); !near.empty()) {
    text += ", did you mean '" + std::string(near) + "'?";
  } else {
    text += "; known are";
    for (size_t i = 0; i < known.size(); ++i) text += (i ? ", " : " ") + std::string(known[i]);
  }
  at(entry.line, entry.column, text);
}

Status Complaints::status() const {
  if (none()) return {};
  std::string text;
  for (const auto& line : lines_) text += (text.empty() ? "" : "\n") + line;
  return invalid(std::move(text));
}

std::string yaml_scalar(const std::string& value) {
  bool plain = !value.empty() && value != "-";
  for (char c : value) plain = plain && (std::isalnum(static_cast<unsigned char>(c)) || std::strchr("._/-+", c));
  if (plain) return value;
  std::string out = "\"";
  for (char c : value) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

}  // namespace weir::base
