#include "app/text_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "net/fd.h"

namespace weir::app {

base::Result<std::string> read_text_file(const std::string& path) {
  auto fault = [&] { return base::invalid("'" + path + "' cannot be read: " + std::strerror(errno)); };
  net::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!fd) return fault();
  std::string text;
  char buffer[16 << 10];
  for (;;) {
    const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fault();
    if (n == 0) break;
    text.append(buffer, size_t(n));
  }
  if (text.empty()) return base::invalid("'" + path + "' is empty");
  return text;
}

}  // namespace weir::app
