// JSON that is read and written here, before a second parser: simdjson.
#pragma once

#include <simdjson.h>

#include <string>
#include <string_view>

namespace weir {

inline simdjson::error_code second_verdict(std::string_view json) {
  simdjson::dom::parser parser;
  simdjson::dom::element element;
  return parser.parse(std::string(json)).get(element);
}

inline bool is_json(std::string_view text) { return second_verdict(text) == simdjson::SUCCESS; }

// Whether it takes a body, too, that a reader here has accepted.
inline bool accepted_again(std::string_view body) {
  // The mark that may be in front (RFC 8259 §8.1) is unknown to simdjson before its version 3.2.
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (body.starts_with(kMark)) body.remove_prefix(kMark.size());
  const auto verdict = second_verdict(body);
  // It has no numbers beyond 64 bits where they are passed over unread; ours needs none of them.
  return verdict == simdjson::SUCCESS || verdict == simdjson::NUMBER_ERROR;
}

}  // namespace weir
