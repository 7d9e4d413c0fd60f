#include "engines/forward/openai/sse_reader.h"

namespace weir::forward {

SseReader::Step SseReader::next(std::string_view& bytes) {
  if (ended_) data_.clear(), ended_ = false;
  while (!bytes.empty()) {
    if (after_return_ && bytes.front() == '\n') bytes.remove_prefix(1);
    after_return_ = false;
    const size_t end = bytes.find_first_of("\r\n");
    const std::string_view piece = bytes.substr(0, end);
    size_ += piece.size() + 1;
    if (size_ > most_) return Step::kLarge;
    line_ += piece;
    if (end == std::string_view::npos) {
      --size_;
      bytes = {};
      break;
    }
    after_return_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    if (end_line() == Step::kEvent) return Step::kEvent;
  }
  return Step::kMore;
}

SseReader::Step SseReader::end_line() {
  if (line_.empty()) {
    size_ = 0;
    if (!has_data_) return Step::kMore;
    has_data_ = false, ended_ = true;
    return Step::kEvent;
  }
  std::string_view line = line_;
  const size_t colon = line.find(':');
  if (line.substr(0, colon) == "data") {
    std::string_view value = colon == std::string_view::npos ? std::string_view() : line.substr(colon + 1);
    if (value.starts_with(' ')) value.remove_prefix(1);
    if (has_data_) data_ += '\n';
    data_ += value;
    has_data_ = true;
  }
  line_.clear();
  return Step::kMore;
}

}  // namespace weir::forward
