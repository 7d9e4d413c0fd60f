#include "app/tools/sse_reader.h"

namespace weir::app {

bool SseReader::feed(std::string_view piece, const std::function<void(std::string_view)>& on_data) {
  for (size_t end; (end = piece.find('\n')) != piece.npos; piece.remove_prefix(end + 1)) {
    line_ += piece.substr(0, end);
    std::string_view line = line_;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with("data:")) {
      line.remove_prefix(5);
      if (line.starts_with(' ')) line.remove_prefix(1);
      on_data(line);
    }
    line_.clear();
  }
  line_ += piece;
  return line_.size() <= kLongest;
}

}  // namespace weir::app
