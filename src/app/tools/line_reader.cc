#include "app/tools/line_reader.h"

#include <unistd.h>

#include <cerrno>

namespace weir::app {

std::optional<std::string> LineReader::next(const std::atomic<bool>& stop) {
  size_t looked = 0;
  for (;;) {
    const size_t end = waiting_.find('\n', looked);
    if (end != waiting_.npos || waiting_.size() >= kLongest || (ended_ && !waiting_.empty())) {
      std::string line = waiting_.substr(0, end);
      waiting_.erase(0, end == waiting_.npos ? end : end + 1);
      if (line.ends_with('\r')) line.pop_back();
      return line;
    }
    if (ended_ || stop) return std::nullopt;
    looked = waiting_.size();
    char piece[4096];
    const ssize_t n = ::read(descriptor_, piece, sizeof piece);
    if (n > 0) waiting_.append(piece, size_t(n));
    if (n == 0 || (n < 0 && errno != EINTR)) ended_ = true;
  }
}

}  // namespace weir::app
