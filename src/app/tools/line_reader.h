// LineReader: lines of standard input, for `weir chat`. A signal ends a wait, unlike with std::getline().
#pragma once

#include <atomic>
#include <optional>
#include <string>

namespace weir::app {

class LineReader {
 public:
  explicit LineReader(int descriptor) : descriptor_(descriptor) {}
  // The next line without its end; a line of more than kLongest bytes comes in parts. Nothing: the end of the input, or
  // `*stop` has been raised by a signal.
  static constexpr size_t kLongest = 1 << 20;
  std::optional<std::string> next(const std::atomic<bool>& stop);

 private:
  const int descriptor_;
  std::string waiting_;
  bool ended_ = false;
};

}  // namespace weir::app
