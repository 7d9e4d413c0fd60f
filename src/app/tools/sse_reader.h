// SseReader: the data of Server-Sent Events out of the pieces of a body.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace weir::app {

// Lines of several data fields in one event are not joined: the APIs that are read here send one.
class SseReader {
 public:
  static constexpr size_t kLongest = 16 << 20;  // bytes of a line

  // Calls `on_data` with each `data:` line that is complete now, without its prefix. False: a line is too long.
  bool feed(std::string_view piece, const std::function<void(std::string_view data)>& on_data);

 private:
  std::string line_;
};

}  // namespace weir::app
