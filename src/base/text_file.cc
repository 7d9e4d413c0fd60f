#include "base/text_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace weir::base {
namespace {

struct OpenFile {
  ~OpenFile() {
    if (fd >= 0) ::close(fd);
  }
  const int fd;
};

std::string show_limit(size_t bytes) {
  return bytes % (1 << 20) == 0 ? std::to_string(bytes >> 20) + " MiB" : std::to_string(bytes >> 10) + " KiB";
}

}  // namespace

// Opening a pipe or a device may wait for good, unless O_NONBLOCK says that it must not.
Result<std::string> read_text_file(const std::string& path, Pipes pipes, size_t most) {
  auto fault = [&] { return invalid("'" + path + "' cannot be read: " + std::strerror(errno)); };
  const OpenFile file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | (pipes == Pipes::kRead ? 0 : O_NONBLOCK))};
  struct stat info {};
  if (file.fd < 0 || ::fstat(file.fd, &info) != 0) return fault();
  const bool readable = S_ISREG(info.st_mode) || S_ISDIR(info.st_mode);  // a folder has an errno of its own
  const bool pipe = S_ISFIFO(info.st_mode);
  if (!readable && !(pipe && pipes == Pipes::kRead))
    return failure(pipe ? Code::kFailedPrecondition : Code::kInvalidArgument, "'" + path + "' is not a regular file");
  std::string text;
  char buffer[16 << 10];
  for (;;) {
    const ssize_t n = ::read(file.fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fault();
    if (n == 0) break;
    text.append(buffer, size_t(n));
    if (text.size() > most) return invalid("'" + path + "' is longer than " + show_limit(most));
  }
  if (text.empty()) return invalid("'" + path + "' is empty");
  return text;
}

}  // namespace weir::base
