// Yaml: a YAML 1.2 document as a plain tree that remembers where everything stood, so that each complaint can say
// file:line:column. Anchors and aliases are errors, since a short document could be a huge or an endless one by them;
// tags are ignored; a repeated key is an error. Time and memory are linear in the document, which is bounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace weir::models {

inline constexpr size_t kMaxYamlBytes = 1 << 20;
inline constexpr size_t kMaxYamlNodes = 100'000;  // keys and values
inline constexpr size_t kMaxYamlDepth = 64;       // lists and maps inside each other

struct Yaml {
  enum class Kind : uint8_t { kNull, kScalar, kList, kMap };
  struct Member;

  Kind kind = Kind::kNull;
  uint32_t line = 1, column = 1;  // of the first character, from 1
  std::string scalar;
  std::vector<Yaml> items;
  std::vector<Member> entries;  // in the file's order

  const Yaml* find(std::string_view key) const;
};

struct Yaml::Member {
  std::string key;
  uint32_t line = 1, column = 1;  // of the key
  Yaml value;
};

// `file` is how complaints name the document. Errors: INVALID_ARGUMENT "file:line:column: …".
base::Result<Yaml> parse_yaml(std::string_view text, std::string_view file);

// Collects complaints about one document, in the order in which they are found; the first kMaxComplaints in full.
class Complaints {
 public:
  static constexpr size_t kMaxComplaints = 20, kMaxShownKey = 80;

  explicit Complaints(std::string file) : file_(std::move(file)) {}

  void at(uint32_t line, uint32_t column, std::string_view text);
  void at(const Yaml& node, std::string_view text) { at(node.line, node.column, text); }
  // "unknown key 'x' in 'limits', did you mean 'y'?"
  void unknown_key(const Yaml::Member& entry, std::string_view where, const std::vector<std::string_view>& known);
  bool none() const { return lines_.empty(); }
  const std::vector<std::string>& lines() const { return lines_; }
  base::Status status() const;  // OK, or INVALID_ARGUMENT with all lines

 private:
  std::string file_;
  std::vector<std::string> lines_;
};

}  // namespace weir::models
