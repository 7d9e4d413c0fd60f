// Yaml: a YAML 1.2 document as a plain tree that remembers where everything stood, so that each complaint can say
// file:line:column. Anchors are expanded (bounded); tags are ignored; a repeated key is an error.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace weir::models {

struct Yaml {
  enum class Kind : uint8_t { kNull, kScalar, kList, kMap };
  struct Entry;

  Kind kind = Kind::kNull;
  uint32_t line = 1, column = 1;  // of the first character, from 1
  std::string scalar;
  std::vector<Yaml> items;
  std::vector<Entry> entries;  // in the file's order

  const Yaml* find(std::string_view key) const;
};

struct Yaml::Entry {
  std::string key;
  uint32_t line = 1, column = 1;  // of the key
  Yaml value;
};

// `file` is how complaints name the document. Errors: INVALID_ARGUMENT "file:line:column: …".
base::Result<Yaml> parse_yaml(std::string_view text, std::string_view file);

// Collects complaints about one document, in the order in which they are found.
class Complaints {
 public:
  explicit Complaints(std::string file) : file_(std::move(file)) {}

  void at(uint32_t line, uint32_t column, std::string_view text);
  void at(const Yaml& node, std::string_view text) { at(node.line, node.column, text); }
  // "unknown key 'x' in 'limits', did you mean 'y'?"
  void unknown_key(const Yaml::Entry& entry, std::string_view where, const std::vector<std::string_view>& known);
  bool none() const { return lines_.empty(); }
  const std::vector<std::string>& lines() const { return lines_; }
  base::Status status() const;  // OK, or INVALID_ARGUMENT with all lines

 private:
  std::string file_;
  std::vector<std::string> lines_;
};

}  // namespace weir::models
