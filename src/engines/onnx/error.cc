#include "engines/onnx/error.h"

#include <cctype>
#include <initializer_list>

namespace weir::onnx {
namespace {

// "/onnxruntime_src/onnxruntime/core/graph/model.cc:182"
bool names_source(std::string_view word) {
  if (word.find('/') == word.npos) return false;
  for (std::string_view suffix : {".cc:", ".h:", ".cpp:", ".hpp:"})
    if (size_t at = word.find(suffix); at != word.npos && at + suffix.size() < word.size() &&
                                       std::isdigit(static_cast<unsigned char>(word[at + suffix.size()])))
      return true;
  return false;
}

bool is_address(std::string_view word) {
  if (word.size() < 8 || !word.starts_with("0x")) return false;
  for (char c : word.substr(2, 6))
    if (!std::isxdigit(static_cast<unsigned char>(c))) return false;
  return true;
}

// Where the C++ function signature at the start of `text` ends: after its parameter list and "[with T = …]".
size_t signature_end(std::string_view text) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '(' || text[i] == '<') ++depth;
    if (text[i] == '>' && depth > 0) --depth;
    if (text[i] != ')' || --depth > 0) continue;
    std::string_view rest = text.substr(i + 1);
    if (rest.starts_with(" const")) rest.remove_prefix(6);
    if (rest.starts_with(" [with "))
      if (size_t close = rest.find(']'); close != rest.npos) rest.remove_prefix(close + 1);
    return text.size() - rest.size();
  }
  return 0;
}

}  // namespace

std::string scrub(std::string_view text) {
  constexpr size_t kLongest = 1024;
  std::string out;
  while (!text.empty() && out.size() < kLongest) {
    size_t end = std::min(text.find_first_of(" \n"), text.size());
    std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (names_source(word)) {
      text.remove_prefix(signature_end(text));
      while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
      continue;
    }
    if (word.empty() || is_address(word)) continue;
    if (!out.empty()) out += ' ';
    out += word;
  }
  return out;
}

base::Status to_status(const Api& api, OrtStatus* status) {
  if (!status) return {};
  auto code =
      api.error_code(status) == ErrorCode::kInvalidArgument ? base::Code::kInvalidArgument : base::Code::kInternal;
  base::Status out = base::failure(code, scrub(api.error_message(status)));
  api.release_status(status);
  return out;
}

}  // namespace weir::onnx
