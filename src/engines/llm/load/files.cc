#include "engines/llm/load/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace weir::llm {
namespace {

base::Status trouble(std::string_view name, int error) {
  if (error == ENOENT) return base::failure(base::Code::kNotFound, "no file '" + std::string(name) + "'");
  if (error == ELOOP) return base::invalid("'" + std::string(name) + "' is a link");
  return base::failure(base::Code::kInternal, "'" + std::string(name) + "' cannot be read");
}

base::Status check_name(std::string_view name) {
  if (!name.empty() && name.front() != '.' && name.find_first_of(std::string_view("/\\\0", 3)) == name.npos) return {};
  return base::invalid("'" + std::string(name.substr(0, 80)) + "' is no name of a file");
}

}  // namespace

Mapping::Mapping(const std::byte* data, size_t size)
    : guard_(std::make_unique<base::BusErrorGuard>(const_cast<std::byte*>(data), size)), data_(data), size_(size) {}
Mapping::~Mapping() {
  guard_.reset();
  if (data_) munmap(const_cast<std::byte*>(data_), size_);
}
Mapping::Mapping(Mapping&& o) noexcept
    : guard_(std::move(o.guard_)), data_(std::exchange(o.data_, nullptr)), size_(std::exchange(o.size_, 0)) {}
Mapping& Mapping::operator=(Mapping&& o) noexcept {
  std::swap(guard_, o.guard_), std::swap(data_, o.data_), std::swap(size_, o.size_);
  return *this;
}

base::Result<Folder> Folder::open(const std::string& path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return base::failure(base::Code::kNotFound, "the model's folder cannot be opened");
  return Folder(fd);
}
Folder::~Folder() {
  if (fd_ >= 0) close(fd_);
}
Folder::Folder(Folder&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}

base::Result<int> Folder::open_file(std::string_view name, size_t& size) const {
  if (auto s = check_name(name); !s.ok()) return s;
  int fd = openat(fd_, std::string(name).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return trouble(name, errno);
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    return base::invalid("'" + std::string(name) + "' is not a regular file");
  }
  size = size_t(info.st_size);
  return fd;
}

base::Result<Folder> Folder::inside(std::string_view name) const {
  if (auto s = check_name(name); !s.ok()) return s;
  int fd = openat(fd_, std::string(name).c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return trouble(name, errno == ENOTDIR ? ELOOP : errno);
  return Folder(fd);
}

base::Result<std::string> Folder::read(std::string_view name, size_t limit) const {
  size_t size = 0;
  auto fd = open_file(name, size);
  if (!fd) return fd.error();
  std::string text;
  if (size > limit) {
    close(*fd);
    return base::invalid("'" + std::string(name) + "' is larger than " + std::to_string(limit) + " bytes");
  }
  text.resize(size);
  size_t at = 0;
  while (at < size) {
    ssize_t n = ::read(*fd, text.data() + at, size - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    at += size_t(n);
  }
  close(*fd);
  if (at != size) return trouble(name, EIO);
  return text;
}

base::Result<std::string> Folder::read_if_there(std::string_view name, size_t limit) const {
  auto text = read(name, limit);
  if (!text && text.error().code == base::Code::kNotFound) return std::string();
  return text;
}

base::Result<Mapping> Folder::map(std::string_view name) const {
  size_t size = 0;
  auto fd = open_file(name, size);
  if (!fd) return fd.error();
  if (size == 0) {
    close(*fd);
    return Mapping();
  }
  void* p = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, *fd, 0);
  int error = errno;
  close(*fd);
  if (p == MAP_FAILED) return trouble(name, error);
  Mapping mapping(static_cast<const std::byte*>(p), size);
  if (mapping.guarded()) return mapping;
  return base::try_again(base::Code::kResourceExhausted,
                         "too many files are mapped to map '" + std::string(name) + "'");
}

}  // namespace weir::llm
