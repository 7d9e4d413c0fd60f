// Yaml: a YAML document as a plain tree that remembers where everything stood, so that each complaint can say
// file:line:column; models/yaml.h reads it. Complaints: what is wrong with one document.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace weir::base {

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

// A text as one scalar of YAML: as it is, or in double quotes.
std::string yaml_scalar(const std::string& value);

// "file:line:column: ", as every complaint begins.
std::string place_in_file(std::string_view file, uint32_t line, uint32_t column);

}  // namespace weir::base
