#include "dialects/evergreen/reference.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
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

base::MemoryCharge charge_of(base::MemoryLedger* ledger) {
  return ledger ? base::MemoryCharge(*ledger, base::MemoryKind::kInput) : base::MemoryCharge();
}

std::string shown(std::string_view uri) { return "ref '" + std::string(base::cut_text(uri, kShown)) + "'"; }

struct FilePath {
  std::string path;       // without slashes before it
  bool absolute = false;  // it may be one from the machine's root: "file:/…", "file:///…", "file://localhost/…"
};

// RFC 8089, and what the protocol's examples have: "file://a/b" is a/b. Nothing for what is no path.
std::optional<FilePath> path_of(std::string_view rest) {
  constexpr std::string_view kHost = "//localhost/";
  if (wire::same_text(rest.substr(0, kHost.size()), kHost)) rest.remove_prefix(kHost.size() - 1);
  const size_t slashes = std::min(rest.find_first_not_of('/'), rest.size());
  auto path = base::percent_decode(rest.substr(slashes));
  if (!path || path->empty() || path->find('\0') != path->npos) return std::nullopt;
  return FilePath{std::move(*path), slashes == 1 || slashes >= 3};
}

// Takes the folder off an absolute path. Spelling alone decides: whether it stays inside is the kernel's to
// say, when it is opened.
std::optional<std::string_view> inside(std::string_view folder, std::string_view path) {
  folder.remove_prefix(std::min(folder.find_first_not_of('/'), folder.size()));
  while (folder.ends_with('/')) folder.remove_suffix(1);
  if (!folder.empty()) {
    if (!path.starts_with(folder) || !path.substr(folder.size()).starts_with('/')) return std::nullopt;
    path.remove_prefix(folder.size());
  }
  path.remove_prefix(std::min(path.find_first_not_of('/'), path.size()));
  if (path.empty()) return std::nullopt;
  return path;
}

// The path in that folder: of an absolute one below it the rest, of any other the whole.
std::string path_in(const std::string& root, const FilePath& file) {
  if (!file.absolute) return file.path;
  std::error_code unreadable;
  for (const auto& folder :
       {std::filesystem::absolute(root, unreadable).lexically_normal(), std::filesystem::canonical(root, unreadable)})
    if (folder.is_absolute())
      if (auto rest = inside(folder.string(), file.path)) return std::string(*rest);
  return file.path;
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

// A file that is read, a slice per turn of the loop.
class FileLoad final : public Load {
 public:
  FileLoad(base::Env& env, int fd, uint64_t size, base::MemoryCharge charge, std::string its_name, Listener& listener)
      : env_(env),
        fd_(fd),
        charge_(std::move(charge)),
        block_(base::heap_slab(size_t(size) + 1)),
        size_(size),
        name_(std::move(its_name)),
        listener_(listener) {
    arm();
  }
  ~FileLoad() override {
    env_.cancel(timer_);
    ::close(fd_);
  }
  uint64_t size() const override { return size_; }

 private:
  void arm() {
    timer_ = env_.at(env_.now(), [this] {
      timer_ = base::TimerId::kNone;
      read_some();
    });
  }

  // A file that has become shorter is what it is now; one that has grown is cut where it ended.
  void read_some() {
    size_t want = std::min<size_t>(kSlice, size_t(size_) - block_.size());
    ssize_t n = want == 0 ? 0 : ::pread(fd_, block_.data() + block_.size(), want, off_t(block_.size()));
    if (n < 0 && errno == EINTR) return arm();
    if (n < 0) return listener_.on_loaded(*this, failure(Code::kUnavailable, name_ + " could not be read"));
    block_.resize(block_.size() + size_t(n));
    if (n > 0 && block_.size() < size_) return arm();
    charge_.clear();                              // the session counts it from here on
    listener_.on_loaded(*this, block_.freeze());  // it may destroy this
  }

  base::Env& env_;
  int fd_;
  base::MemoryCharge charge_;
  base::Block block_;
  uint64_t size_;
  std::string name_;
  Listener& listener_;
  base::TimerId timer_ = base::TimerId::kNone;
};

// A reference that the Fetcher brings.
class WebLoad final : public Load, wire::Fetcher::Receiver {
 public:
  WebLoad(base::MemoryLedger* ledger, std::string its_name, Listener& listener)
      : charge_(charge_of(ledger)), name_(std::move(its_name)), listener_(listener) {}
  base::Status begin(wire::Fetcher& fetcher, std::string_view uri) {
    auto begun = fetcher.fetch(uri, *this);
    if (!begun) return named(begun.error());
    fetch_ = std::move(*begun);
    return {};
  }
  uint64_t size() const override { return held_; }

 private:
  bool on_growth(uint64_t held) override {
    held_ = held;
    return charge_.resize(held) && listener_.on_growth();
  }
  void on_fetched(base::Result<base::Bytes> bytes) override {
    if (!bytes) bytes = named(bytes.error());
    charge_.clear();                               // the session counts it from here on
    listener_.on_loaded(*this, std::move(bytes));  // it may destroy this
  }
  base::Status named(base::Status s) const {
    s.text = name_ + ": " + s.text;
    return s;
  }

  base::MemoryCharge charge_;
  std::string name_;
  Listener& listener_;
  uint64_t held_ = 0;
  std::unique_ptr<wire::Fetcher::Fetch> fetch_;
};

base::Result<std::unique_ptr<Load>> load_file(const Library& library, std::string_view uri, std::string_view rest,
                                              Load::Listener& listener) {
  const References& references = library.references;
  auto path = path_of(rest);
  if (!path) return base::invalid(shown(uri) + " names no file");
  int fd = -1;
  for (const auto& root : references.file_roots)
    if (fd = open_below(root, path_in(root, *path)); fd >= 0) break;
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
  base::MemoryCharge charge = charge_of(library.ledger);
  if (!charge.grow(uint64_t(info.st_size))) {
    ::close(fd);
    return base::overloaded(shown(uri) + ": there is no memory for it; try again later");
  }
  return std::unique_ptr<Load>(
      new FileLoad(library.env, fd, uint64_t(info.st_size), std::move(charge), shown(uri), listener));
}

}  // namespace

base::Result<std::unique_ptr<Load>> load(const Library& library, std::string_view uri, Load::Listener& listener) {
  size_t colon = uri.find(':');
  if (colon == uri.npos) return base::invalid(shown(uri) + " is no URI");
  std::string_view scheme = uri.substr(0, colon);
  if (wire::same_text(scheme, "file") && !library.references.file_roots.empty())
    return load_file(library, uri, uri.substr(colon + 1), listener);
  bool web = wire::same_text(scheme, "http") || wire::same_text(scheme, "https");
  if (!web || !library.fetcher)
    return failure(Code::kPermissionDenied, shown(uri) + ": references of this scheme are off");
  auto web_load = std::make_unique<WebLoad>(library.ledger, shown(uri), listener);
  if (base::Status s = web_load->begin(*library.fetcher, uri); !s.ok()) return s;
  return std::unique_ptr<Load>(std::move(web_load));
}

}  // namespace weir::evergreen
