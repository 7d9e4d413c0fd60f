// The tokens of a template, with white space taken away as Jinja does with trim_blocks and lstrip_blocks (which is how
// chat templates are rendered): the newline behind a block tag, the blanks before one, and what `-` asks for.
// https://jinja.palletsprojects.com/en/3.1.x/templates/#whitespace-control
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace weir::text::jinja {

struct Token {
  enum class Kind : uint8_t {
    kData,           // text between tags
    kBlockBegin,     // {%
    kBlockEnd,       // %}
    kVariableBegin,  // {{
    kVariableEnd,    // }}
    kName,
    kString,
    kInteger,
    kFloat,
    kOperator,
    kEnd,
  };
  Kind kind;
  int line;
  std::string text;  // of a string: its value
};

// A fault names the line.
std::vector<Token> tokens_of(std::string_view source);

}  // namespace weir::text::jinja
