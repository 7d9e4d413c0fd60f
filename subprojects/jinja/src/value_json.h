// Values from JSON, and JSON from values as Python's json.dumps writes it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "value.h"

namespace jinja {

Value from_json(const nlohmann::json& json);
Value from_json(const nlohmann::ordered_json& json);  // dicts keep their order

struct DumpOptions {
  int64_t indent = -1;      // spaces; -1: all on one line
  std::string indent_text;  // instead of spaces
  std::string item_separator = ", ", key_separator = ": ";
  bool ascii = false;  // ensure_ascii
  bool sort = false;   // sort_keys
  uint64_t most = 1 << 20;
};
// Fails where it becomes longer than `most` bytes (and one value more).
std::string dump(const Value& value, const DumpOptions& options);

}  // namespace jinja
