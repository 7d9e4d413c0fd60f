// StopStrings: ends a text that comes in pieces at the first of its stop strings. One text each; one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weir::text {

// Looks for stop strings across the borders of pieces. Text that may be the start of one is held back. The stop string
// that is complete first ends the text; of two that end at the same byte, the longer one. How the text is cut into
// pieces makes no difference.
class StopStrings {
 public:
  enum class Keep : uint8_t { kNo, kYes };  // whether the stop string itself is part of the text
  StopStrings() = default;                  // none: everything passes
  StopStrings(std::vector<std::string> stops, Keep keep);
  // Appends to `out` what is certain not to be part of a stop string. True when one is complete: the text ends there,
  // and which() says which.
  bool push(std::string_view piece, std::string& out);
  // The stream is over: what was held back is text after all.
  void finish(std::string& out);
  const std::string& which() const { return stops_[which_]; }

 private:
  struct Progress {
    std::vector<uint32_t> back;
    uint32_t matched;
  };
  bool advance(char c);

  std::vector<std::string> stops_;
  std::vector<Progress> progress_;
  Keep keep_ = Keep::kNo;
  std::string held_;
  size_t which_ = 0;
};

}  // namespace weir::text
