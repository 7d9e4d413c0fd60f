// One line of a batch's input file (JSON Lines):
//
//   {"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{…}}
//
// Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "marshal/json_cursor.h"

namespace weir::openai::batches {

// Says what is wrong with a line, as the batch's `errors` say it.
struct LineError {
  std::string_view code;  // "invalid_json_line", "mismatched_url", …: a literal; empty: nothing is wrong
  std::string message;
  std::string_view param;  // the member at fault: a literal, or empty

  bool ok() const { return code.empty(); }
};

struct Line {
  std::string custom_id;  // 1 to kLongestId bytes
  std::string model;
  std::string_view body;  // JSON object, of the line's text
};
inline constexpr size_t kLongestId = 512;

// `endpoint`: of the batch, "/v1/embeddings". A body that asks for a stream is refused: there is nobody to stream to.
LineError read_line(std::string_view text, std::string_view endpoint, Line& out);

// The members of a body that matter to a batch. All else is for the endpoint to judge.
bool read_line_body(marshal::JsonCursor& json, std::string& model, bool& stream);

}  // namespace weir::openai::batches
