#include "engines/onnx/external_data.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "engines/onnx/onnx_file.h"

namespace weir::onnx {
namespace {

using base::Code;
using base::failure;
using base::Status;

class OwnedFd {
 public:
  explicit OwnedFd(int fd) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~OwnedFd() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

// One part after the other, none of them a link.
OwnedFd open_below(OwnedFd at, std::string_view path) {
  while (at.get() >= 0) {
    const size_t slash = path.find('/');
    const bool leaf = slash == path.npos;
    const int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (leaf ? 0 : O_DIRECTORY);
    at = OwnedFd(openat(at.get(), std::string(path.substr(0, slash)).c_str(), flags));
    if (leaf) break;
    path.remove_prefix(slash + 1);
  }
  return at;
}

OwnedFd open_folder(const std::string& model) {
  struct stat info {};
  std::string folder = model;
  if (stat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode))
    folder = model.find('/') == model.npos ? "." : model.substr(0, model.find_last_of('/') + 1);
  return OwnedFd(open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

std::string quoted_location(std::string_view name) { return "'" + std::string(name.substr(0, 200)) + "'"; }

Status not_opened(const std::string& name, int error) {
  const std::string file = "file " + quoted_location(name) + ", which holds tensors of the model, ";
  if (error == ENOENT) return failure(Code::kNotFound, file + "is missing");
  if (error == ELOOP || error == ENOTDIR) return failure(Code::kFailedPrecondition, file + "is behind a symbolic link");
  return failure(Code::kFailedPrecondition, file + "cannot be opened");
}

}  // namespace

bool is_plain_location(std::string_view location) {
  if (location.empty() || location.size() > 1024) return false;
  for (char c : location)
    if (static_cast<unsigned char>(c) < 0x20 || c == '\\' || c == '*') return false;
  for (;;) {
    const size_t slash = location.find('/');
    const std::string_view part = location.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return false;
    if (slash == location.npos) return true;
    location.remove_prefix(slash + 1);
  }
}

base::Result<ExternalData> ExternalData::open(const std::string& model, const std::vector<std::string>& names) {
  ExternalData out;
  for (const std::string& name : names) {
    if (!is_plain_location(name))
      return base::invalid("the model keeps tensors in " + quoted_location(name) +
                           ": only files in the model file's own folder and below are read");
    OwnedFd fd = open_below(open_folder(model), name);
    if (fd.get() < 0) return not_opened(name, errno);
    struct stat info {};
    if (fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return not_opened(name, EINVAL);
    const auto size = size_t(info.st_size);
    void* data = size > 0 ? mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd.get(), 0) : nullptr;
    if (data == MAP_FAILED)
      return failure(Code::kResourceExhausted, "there is not enough memory to map " + quoted_location(name));
    auto guard = data ? std::make_unique<base::BusErrorGuard>(data, size) : nullptr;
    const bool guarded = !guard || *guard;
    out.files_.push_back({name, static_cast<char*>(data), size, std::move(guard)});
    if (!guarded)
      return base::try_again(Code::kResourceExhausted, "too many files are mapped to map " + quoted_location(name));
    out.identity_ += identity_of(info);
  }
  return out;
}

base::Status ExternalData::intact() const {
  for (const File& file : files_)
    if (file.guard && file.guard->lost())
      return base::try_again(Code::kUnavailable,
                             "file " + quoted_location(file.name) +
                                 ", which holds tensors of the model, changed while it was read, or "
                                 "cannot be read");
  return {};
}

ExternalData::~ExternalData() {
  for (File& file : files_) {
    file.guard.reset();
    if (file.data) munmap(file.data, file.size);
  }
}

}  // namespace weir::onnx
