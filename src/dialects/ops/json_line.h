// JsonLine: one JSON object on one line, as logs have it. Texts are escaped to visible ASCII and cut to kLongest bytes,
// so that nothing that a client sends can end a line. A text with many escapes is cut to kMostWritten bytes of its
// JSON, so that a line of ten such texts is no longer than PIPE_BUF: a pipe that others write to, too, may cut a longer
// one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/env.h"

namespace weir::ops {

class JsonLine {
 public:
  static constexpr size_t kLongest = 256, kMostWritten = 360;

  // Begins a line at the end of `out`, which it borrows, with the member "time": RFC 3339 in UTC, with microseconds.
  JsonLine(std::string& out, base::WallTime at);

  // Empty values are left out.
  JsonLine& text(std::string_view key, std::string_view value);
  JsonLine& number(std::string_view key, uint64_t value);
  JsonLine& seconds(std::string_view key, base::Duration value);
  void end() { out_ += "}\n"; }

 private:
  std::string& out_;
};

}  // namespace weir::ops
