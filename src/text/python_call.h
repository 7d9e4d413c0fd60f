// Calls of tools as a list of Python calls: [name(argument="value", …), …].
#pragma once

#include <cstddef>
#include <string_view>

#include "text/answer_parser.h"

namespace weir::text {

// The end of a Python list, found byte by byte.
class PythonListEnd {
 public:
  // True for the byte that ends the list, which the first one begins.
  bool push(char c);
  void clear() { *this = {}; }

 private:
  size_t depth_ = 0;
  char quote_ = 0;
  bool escaped_ = false;
};

// The calls in a list, their arguments as JSON objects. Values are Python's literals or JSON's: texts, numbers, True,
// False, None, lists, tuples, dicts; no more than 64 inside each other. False: it is something else, and the sink has
// been given nothing.
bool read_python_calls(std::string_view list, AnswerSink& sink);

}  // namespace weir::text
