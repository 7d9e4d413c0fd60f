#include "app/locked_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace weir::app {
namespace {

constexpr size_t kMostLockedBytes = size_t(64) << 20;

base::Status file_fault(const std::string& path, const char* what) {
  return base::failure(base::Code::kFailedPrecondition,
                       "'" + path + "' cannot be " + what + ": " + std::strerror(errno));
}

// The path behind all symbolic links: these stay, and what they lead to is exchanged.
std::string resolved(const std::string& path) {
  char buffer[PATH_MAX];
  return ::realpath(path.c_str(), buffer) ? std::string(buffer) : path;
}

bool same_file(int fd, const std::string& path) {
  struct stat mine {
  }, theirs{};
  return ::fstat(fd, &mine) == 0 && ::stat(path.c_str(), &theirs) == 0 && mine.st_ino == theirs.st_ino &&
         mine.st_dev == theirs.st_dev;
}

// The folder that the path is in.
std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? "." : path.substr(0, slash + 1);
}

// Opens the file, which it makes first where that is asked for. Nothing, with errno, where it cannot.
net::Fd open_or_make(const std::string& path, LockedFile::Missing missing) {
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOCTTY;
  net::Fd fd(::open(path.c_str(), kFlags));
  if (fd || errno != ENOENT || missing == LockedFile::Missing::kFail) return fd;
  fd = net::Fd(::open(path.c_str(), kFlags | O_CREAT | O_EXCL, 0600));
  if (!fd && errno == EEXIST) return net::Fd(::open(path.c_str(), kFlags));
  struct stat folder {};
  if (!fd || ::stat(folder_of(path).c_str(), &folder) != 0) return fd;
  if (::fchown(fd.get(), uid_t(-1), folder.st_gid) == 0) (void)::fchmod(fd.get(), 0640);
  return fd;
}

bool write_whole(int fd, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    ssize_t n = ::write(fd, text.data() + at, text.size() - at);
    if (n < 0 && errno != EINTR) return false;
    if (n > 0) at += size_t(n);
  }
  return ::fsync(fd) == 0;
}

}  // namespace

// A file that was exchanged while this waited is not the one that readers see any more: then the new one is locked.
base::Result<LockedFile> LockedFile::open(const std::string& given, Missing missing) {
  const std::string path = resolved(given);
  for (;;) {
    net::Fd fd = open_or_make(path, missing);
    if (!fd) return file_fault(path, "opened");
    while (::flock(fd.get(), LOCK_EX) != 0)
      if (errno != EINTR) return file_fault(path, "locked");
    if (!same_file(fd.get(), path)) continue;
    LockedFile out(path, std::move(fd));
    if (auto s = out.read(); !s.ok()) return s;
    return out;
  }
}

base::Status LockedFile::read() {
  char buffer[64 << 10];
  for (;;) {
    ssize_t n = ::read(fd_.get(), buffer, sizeof buffer);
    if (n == 0) return {};
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return file_fault(path_, "read");
    text_.append(buffer, size_t(n));
    if (text_.size() > kMostLockedBytes)
      return base::failure(base::Code::kFailedPrecondition, "'" + path_ + "' is larger than 64 MiB");
  }
}

base::Status LockedFile::write_fresh(const std::string& temporary, const net::Fd& fresh,
                                     const std::string& text) const {
  struct stat was {};
  if (::fstat(fd_.get(), &was) != 0) return file_fault(path_, "read");
  const bool ours = was.st_uid == ::geteuid() && was.st_gid == ::getegid();
  if (!ours && ::fchown(fresh.get(), was.st_uid, was.st_gid) != 0) return file_fault(temporary, "given to its owner");
  if (::fchmod(fresh.get(), was.st_mode & 07777) != 0) return file_fault(temporary, "given its mode");
  return write_whole(fresh.get(), text) ? base::Status{} : file_fault(temporary, "written");
}

base::Status LockedFile::replace(const std::string& text) {
  std::string temporary = path_ + ".XXXXXX";
  net::Fd fresh(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!fresh) return file_fault(temporary, "made");
  base::Status status = write_fresh(temporary, fresh, text);
  if (status.ok() && ::rename(temporary.c_str(), path_.c_str()) != 0) status = file_fault(path_, "exchanged");
  if (!status.ok()) {
    ::unlink(temporary.c_str());
    return status;
  }
  net::Fd folder(::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder) ::fsync(folder.get());
  text_ = text;
  return {};
}

}  // namespace weir::app
