#include "dialects/evergreen/reference.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/encoding.h"
#include "wire/text.h"

namespace weir::evergreen {
namespace {

using base::Code;
using base::failure;

constexpr size_t kSlice = 256 << 10;  // read in one turn, so that a large file holds nobody up for long
constexpr size_t kShown = 80;

std::string shown(std::string_view uri) { return "ref '" + std::string(uri.substr(0, kShown)) + "'"; }

// "file://a/b", "file:///a/b" and "file:a/b" all name a/b below a root. Nothing for what is no path.
std::optional<std::string> path_of(std::string_view rest) {
  rest.remove_prefix(std::min(rest.find_first_not_of('/'), rest.size()));
  auto path = base::percent_decode(rest);
  if (!path || path->empty() || path->find('\0') != path->npos) return std::nullopt;
  return path;
}

int open_below(const std::string& root, const std::string& path) {
  int folder = ::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return -1;
  open_how how{};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  int fd = int(::syscall(SYS_openat2, folder, path.c_str(), &how, sizeof how));
  ::close(folder);
  return fd;
}

}  // namespace

base::Result<std::unique_ptr<FileLoad>> FileLoad::open(base::Env& env, const References& references,
                                                       std::string_view uri, Done done) {
  size_t colon = uri.find(':');
  if (colon == uri.npos) return base::invalid(shown(uri) + " is no URI");
  if (!wire::same_text(uri.substr(0, colon), "file") || references.file_roots.empty())
    return failure(Code::kPermissionDenied, shown(uri) + ": references of this scheme are off");
  auto path = path_of(uri.substr(colon + 1));
  if (!path) return base::invalid(shown(uri) + " names no file");
  int fd = -1;
  for (const auto& root : references.file_roots)
    if (fd = open_below(root, *path); fd >= 0) break;
  struct stat info {};
  if (fd < 0 || ::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    if (fd >= 0) ::close(fd);
    return failure(Code::kNotFound, shown(uri) + ": no such file");
  }
  if (uint64_t(info.st_size) > references.max_bytes) {
    ::close(fd);
    return failure(Code::kResourceExhausted,
                   shown(uri) + " is larger than " + std::to_string(references.max_bytes) + " bytes");
  }
  return std::unique_ptr<FileLoad>(new FileLoad(env, fd, uint64_t(info.st_size), std::move(done)));
}

FileLoad::FileLoad(base::Env& env, int fd, uint64_t size, Done done)
    : env_(env), fd_(fd), block_(base::heap_slab(size_t(size) + 1)), size_(size), done_(std::move(done)) {
  arm();
}

FileLoad::~FileLoad() {
  env_.cancel(timer_);
  ::close(fd_);
}

void FileLoad::arm() {
  timer_ = env_.at(env_.now(), [this] {
    timer_ = base::TimerId::kNone;
    read_some();
  });
}

// A file that has become shorter is what it is now; one that has grown is cut where it ended.
void FileLoad::read_some() {
  size_t want = std::min<size_t>(kSlice, size_t(size_) - block_.size());
  ssize_t n = want == 0 ? 0 : ::pread(fd_, block_.data() + block_.size(), want, off_t(block_.size()));
  if (n < 0 && errno == EINTR) return arm();
  if (n < 0) {
    Done done = std::move(done_);
    return done(*this, failure(Code::kUnavailable, "a reference could not be read"));
  }
  block_.resize(block_.size() + size_t(n));
  if (n > 0 && block_.size() < size_) return arm();
  Done done = std::move(done_);  // it may destroy this
  done(*this, block_.freeze());
}

}  // namespace weir::evergreen
