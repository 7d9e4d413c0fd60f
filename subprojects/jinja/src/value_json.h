// Values from JSON, and JSON from values as Python's json.dumps writes it.
#pragma once

#include <functional>
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
  // Called before so many bytes are appended to the text; ends it by an Exception. Empty: nobody is asked.
  std::function<void(std::string&, size_t)> make_room{};
};
std::string dump(const Value& value, const DumpOptions& options);

}  // namespace jinja
