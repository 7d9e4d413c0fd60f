// The lexer: source -> tokens. It takes white space away as Jinja does with trim_blocks and lstrip_blocks: the newline
// behind a block tag, the blanks before one, and what `-` asks for.
// https://jinja.palletsprojects.com/en/3.1.x/templates/#whitespace-control
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "value.h"

namespace jinja {

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

// An error names the line.
std::vector<Token> tokens_of(std::string_view source);

}  // namespace jinja
