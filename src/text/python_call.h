// Tool calls that are written as a list of Python calls: [name(argument="value", …), …].
#pragma once

#include <cstddef>
#include <string_view>

#include "text/answer_parser.h"

namespace weir::text {

// Finds the end of a Python list byte by byte.
class PythonListEnd {
 public:
  // True for the list's last byte. The first byte pushed is its `[`.
  bool push(char c);
  void clear() { *this = {}; }

 private:
  size_t depth_ = 0;
  char quote_ = 0;
  bool escaped_ = false;
};

// Reads the calls of a list and gives them to the sink, with their arguments as a JSON object. Values are literals of
// Python or JSON: strings, numbers, True, False, None, lists, tuples and dicts, nested at most 64 deep. False: `list`
// is something else, and the sink was given nothing.
bool read_python_calls(std::string_view list, AnswerSink& sink);

}  // namespace weir::text
