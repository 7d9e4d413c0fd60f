#include "app/tools/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>

namespace weir::app {
namespace {

volatile std::sig_atomic_t asked_to_end = 0;

void remember_end(int) { asked_to_end = 1; }
void wake_up(int) {}

void handle(int signal, void (*with)(int)) {
  struct sigaction action {};
  action.sa_handler = with;  // without SA_RESTART: poll() ends
  ::sigaction(signal, &action, nullptr);
}

void write_out(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(STDOUT_FILENO, text.data(), text.size());
    if (n < 0 && errno != EINTR) return;
    if (n > 0) text.remove_prefix(size_t(n));
  }
}

constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l", kLeave = "\x1b[?25h\x1b[?1049l";

}  // namespace

bool output_is_terminal() { return ::isatty(STDOUT_FILENO) == 1; }
bool input_is_terminal() { return ::isatty(STDIN_FILENO) == 1; }

Screen::Screen() : keys_(::tcgetattr(STDIN_FILENO, &before_) == 0) {
  for (int signal : {SIGTERM, SIGHUP, SIGINT}) handle(signal, remember_end);
  handle(SIGWINCH, wake_up);
  if (keys_) {
    termios raw = before_;
    raw.c_lflag &= tcflag_t(~(ICANON | ECHO | ISIG));
    ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  }
  write_out(kEnter);
}

Screen::~Screen() {
  write_out(kLeave);
  if (keys_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

Screen::Key Screen::wait(base::Duration most) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(most).count();
  pollfd input{keys_ ? STDIN_FILENO : -1, POLLIN, 0};
  if (asked_to_end) return Key::kQuit;
  const int n = ::poll(&input, 1, int(std::clamp<int64_t>(left, 0, 1 << 30)));
  if (asked_to_end) return Key::kQuit;
  if (n < 0) return Key::kOther;
  if (n == 0) return Key::kNone;
  char key = 0;
  if (::read(STDIN_FILENO, &key, 1) <= 0) return Key::kQuit;  // the terminal is gone
  constexpr char kInterrupt = 3, kEnd = 4;
  return key == 'q' || key == 'Q' || key == kInterrupt || key == kEnd ? Key::kQuit : Key::kOther;
}

void Screen::draw(const std::string& lines) {
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0;
  // To the end of each line, and below the last one, what was there is erased: no flicker.
  write_out("\x1b[H" + fit_lines(lines, known ? size.ws_row : 24, known ? size.ws_col : 80, "\x1b[K\r\n") + "\x1b[J");
}

std::string fit_lines(const std::string& text, size_t rows, size_t columns, std::string_view end) {
  std::string out;
  size_t at = 0;
  for (size_t row = 0; row < rows && at < text.size(); ++row) {
    const size_t stop = std::min(text.find('\n', at), text.size());
    if (row > 0) out += end;
    size_t shown = 0;
    for (; at < stop; ++at) {
      const bool begins = (uint8_t(text[at]) & 0xc0) != 0x80;
      if (begins && ++shown > columns) break;
      out += text[at];
    }
    at = stop + 1;
  }
  if (!out.empty()) out += end.substr(0, end.find('\r'));
  return out;
}

}  // namespace weir::app
