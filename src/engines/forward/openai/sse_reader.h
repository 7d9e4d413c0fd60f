// SseReader: Server-Sent Events, the reading side (WHATWG HTML, section 9.2), of a server that is not to be trusted.
//
//   stream = *( *field end-of-line ) ; a blank line ends an event      field = name [ ":" [ " " ] value ] end-of-line
//   end-of-line = CR LF / LF / CR                                       a line that begins with ":" is a comment
//
// Only `data` is read; its lines are joined by LF. Pure; one thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weir::forward {

class SseReader {
 public:
  // `most`: bytes of one event, its comments and other fields included.
  explicit SseReader(size_t most) : most_(most) {}

  // Takes bytes off the front of `bytes`, up to the end of an event or all of them.
  enum class Step : uint8_t {
    kMore,   // all are taken
    kEvent,  // data() is whole, until the next call
    kLarge,  // the event has more than `most` bytes; nothing more can be read
  };
  Step next(std::string_view& bytes);
  std::string_view data() const { return data_; }

 private:
  Step end_line();

  const size_t most_;
  std::string line_, data_;
  size_t size_ = 0;            // of the event so far
  bool has_data_ = false;      // the event that is being read
  bool ended_ = false;         // data_ is an event that was told
  bool after_return_ = false;  // the next LF belongs to the CR before it
};

}  // namespace weir::forward
