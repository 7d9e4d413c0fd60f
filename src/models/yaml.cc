#include "models/yaml.h"

#include <yaml-cpp/yaml.h>

#include "base/encoding.h"

namespace weir::models {
namespace {

// Aliases may make a short document huge ("billion laughs"); configuration never needs this many nodes.
constexpr size_t kMaxYamlNodes = 100'000;
constexpr size_t kMaxBytes = 4 << 20;

std::string place(std::string_view file, uint32_t line, uint32_t column) {
  return std::string(file) + ':' + std::to_string(line) + ':' + std::to_string(column) + ": ";
}

struct TreeMaker {
  Complaints& complaints;
  size_t nodes = 0;

  static void put_mark(const YAML::Mark& mark, uint32_t& line, uint32_t& column) {
    if (mark.is_null()) return;
    line = uint32_t(mark.line + 1);
    column = uint32_t(mark.column + 1);
  }

  Yaml make(const YAML::Node& node) {
    Yaml out;
    put_mark(node.Mark(), out.line, out.column);
    if (++nodes > kMaxYamlNodes) {
      if (nodes == kMaxYamlNodes + 1) complaints.at(out, "the document has too many nodes");
      return out;
    }
    if (node.IsScalar()) {
      out.kind = Yaml::Kind::kScalar;
      out.scalar = node.Scalar();
    } else if (node.IsSequence()) {
      out.kind = Yaml::Kind::kList;
      for (const auto& item : node) out.items.push_back(make(item));
    } else if (node.IsMap()) {
      make_map(node, out);
    }
    return out;
  }

  void make_map(const YAML::Node& node, Yaml& out) {
    out.kind = Yaml::Kind::kMap;
    for (const auto& pair : node) {
      Yaml::Entry entry;
      put_mark(pair.first.Mark(), entry.line, entry.column);
      if (!pair.first.IsScalar()) {
        complaints.at(entry.line, entry.column, "a key must be plain text");
        continue;
      }
      entry.key = pair.first.Scalar();
      if (out.find(entry.key)) complaints.at(entry.line, entry.column, "key '" + entry.key + "' is given twice");
      entry.value = make(pair.second);
      out.entries.push_back(std::move(entry));
    }
  }
};

}  // namespace

const Yaml* Yaml::find(std::string_view key) const {
  for (const auto& e : entries)
    if (e.key == key) return &e.value;
  return nullptr;
}

void Complaints::at(uint32_t line, uint32_t column, std::string_view text) {
  lines_.push_back(place(file_, line, column) + std::string(text));
}

void Complaints::unknown_key(const Yaml::Entry& entry, std::string_view where,
                             const std::vector<std::string_view>& known) {
  std::string text = "unknown key '" + entry.key + "'";
  if (!where.empty()) text += " in '" + std::string(where) + "'";
  if (auto near = base::near_miss(entry.key, known); !near.empty()) {
    text += ", did you mean '" + std::string(near) + "'?";
  } else {
    text += "; known are";
    for (size_t i = 0; i < known.size(); ++i) text += (i ? ", " : " ") + std::string(known[i]);
  }
  at(entry.line, entry.column, text);
}

base::Status Complaints::status() const {
  if (none()) return {};
  std::string text;
  for (const auto& line : lines_) text += (text.empty() ? "" : "\n") + line;
  return base::invalid(std::move(text));
}

base::Result<Yaml> parse_yaml(std::string_view text, std::string_view file) {
  if (text.size() > kMaxBytes) return base::invalid(std::string(file) + ": longer than 4 MiB");
  Complaints complaints{std::string(file)};
  try {
    TreeMaker maker{complaints};
    auto documents = YAML::LoadAll(std::string(text));
    if (documents.size() > 1) return base::invalid(std::string(file) + ": more than one document");
    Yaml tree = documents.empty() ? Yaml{} : maker.make(documents[0]);
    if (!complaints.none()) return complaints.status();
    return tree;
  } catch (const YAML::Exception& e) {
    if (e.mark.is_null()) return base::invalid(std::string(file) + ": " + e.msg);
    return base::invalid(place(file, uint32_t(e.mark.line + 1), uint32_t(e.mark.column + 1)) + e.msg);
  }
}

}  // namespace weir::models
