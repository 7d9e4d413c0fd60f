// Terminal: what `weir top` and `weir chat` need of the terminal that they run on.
#pragma once

#include <termios.h>

#include <string>

#include "base/env.h"

namespace weir::app {

// Whether standard output, or standard input, is one.
bool output_is_terminal();
bool input_is_terminal();

// A full screen of its own, without echo, keys as they are pressed; all as it was when this is destroyed, also after
// SIGTERM or SIGHUP, which wait() tells of. One at a time.
class Screen {
 public:
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  enum class Key : uint8_t { kNone, kQuit, kOther };
  // Waits for a key, so long at most. kQuit: q, Ctrl-C, Ctrl-D, or a signal to end. kOther: also a change of its size.
  Key wait(base::Duration most);
  // Shows the lines from the upper left corner, as far as they fit.
  void draw(const std::string& lines);

 private:
  termios before_{};
  bool keys_ = false;  // standard input is a terminal, too
};

// The first `rows` lines of `text`, each cut to `columns` characters (of UTF-8), with `end` between them. Pure.
std::string fit_lines(const std::string& text, size_t rows, size_t columns, std::string_view end);

}  // namespace weir::app
