#include "models/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <memory>
#include <type_traits>

#include "base/encoding.h"
#include "base/fnv.h"
#include "models/gguf_files.h"

namespace weir::models {
namespace {

// Enough for any model with external data; a folder that passes it is somebody's home directory.
constexpr size_t kMaxFiles = 10'000;
constexpr int kMaxDepth = 6;
constexpr size_t kLongestEntry = 128;  // of a name that is shown

struct Fd {
  explicit Fd(int f) : fd(f) {}
  Fd(Fd&& o) noexcept : fd(std::exchange(o.fd, -1)) {}
  Fd& operator=(Fd&& o) noexcept {
    std::swap(fd, o.fd);
    return *this;
  }
  ~Fd() {
    if (fd >= 0) ::close(fd);
  }
  int fd;
};

struct CloseDir {
  void operator()(DIR* d) const { ::closedir(d); }
};

// For kernels and sandboxes without openat2: one part after the other, none of them a link.
Fd open_by_parts(Fd at, std::string_view relative) {
  while (at.fd >= 0) {
    size_t slash = relative.find('/');
    bool leaf = slash == std::string_view::npos;
    std::string part(relative.substr(0, slash));
    int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (leaf ? 0 : O_DIRECTORY);
    at = Fd(::openat(at.fd, part.c_str(), flags));
    if (leaf) break;
    relative.remove_prefix(slash + 1);
  }
  return at;
}

// O_NONBLOCK: opening a FIFO must not wait for its writer.
Fd open_beneath(const std::string& folder, std::string_view relative) {
  Fd base(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (base.fd < 0) return base;
  open_how how{};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  long fd = ::syscall(SYS_openat2, base.fd, std::string(relative).c_str(), &how, sizeof how);
  if (fd >= 0 || (errno != ENOSYS && errno != EPERM)) return Fd(int(fd));
  return open_by_parts(std::move(base), relative);
}

// The system lacks something for the moment, which says nothing about what could not be opened.
bool is_lack(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM; }

base::Status lacking(const std::string& what, int error) {
  return base::try_again(base::Code::kUnavailable, what + ": " + std::strerror(error));
}

std::string last_part(const std::string& folder) { return folder.substr(folder.find_last_of('/') + 1); }

base::Result<Fd> open_regular(const std::string& folder, std::string_view relative) {
  std::string shown = last_part(folder) + '/' + std::string(relative);
  if (!good_relative_path(relative)) return base::invalid("'" + std::string(relative) + "' is no path inside a model");
  Fd fd = open_beneath(folder, relative);
  if (fd.fd < 0) {
    int error = errno;
    if (error == ENOENT || error == ENOTDIR) return base::failure(base::Code::kNotFound, "there is no file " + shown);
    if (error == ELOOP || error == EXDEV)
      return base::failure(base::Code::kFailedPrecondition, shown + " is a symbolic link, or reached through one");
    if (is_lack(error)) return lacking(shown + " cannot be opened", error);
    return base::failure(base::Code::kFailedPrecondition, shown + " cannot be opened: " + std::strerror(error));
  }
  struct stat st {};
  if (::fstat(fd.fd, &st) != 0 || !S_ISREG(st.st_mode))
    return base::failure(base::Code::kFailedPrecondition, shown + " is not a regular file");
  return fd;
}

FileStamp stamp(std::string path, const struct stat& st) {
  const int64_t mtime = int64_t(st.st_mtim.tv_sec) * 1'000'000'000 + st.st_mtim.tv_nsec;
  return {std::move(path), mtime, uint64_t(st.st_size), st.st_ino, st.st_mode, st.st_uid, st.st_gid};
}

// Calls each(name, stat) for the entries of a folder that do not begin with a dot; one that returns a bool ends it with
// true. False: it cannot be listed; errno says why.
template <class F>
bool for_each_entry(const std::string& folder, F&& each) {
  std::unique_ptr<DIR, CloseDir> dir(::opendir(folder.c_str()));
  if (!dir) return false;
  while (const dirent* entry = ::readdir(dir.get())) {
    struct stat st {};
    if (entry->d_name[0] == '.') continue;
    if (::fstatat(::dirfd(dir.get()), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if constexpr (std::is_void_v<std::invoke_result_t<F&, const char*, const struct stat&>>)
      each(entry->d_name, st);
    else if (each(entry->d_name, st))
      break;
  }
  return true;
}

// Returns the errno of what the system lacked, or 0. Folders that cannot be listed for another reason are left out.
int walk(const std::string& folder, const std::string& prefix, int depth, Stamps& out) {
  int lack = 0;
  const bool listed = for_each_entry(folder, [&](const std::string& name, const struct stat& st) {
    if (out.size() >= kMaxFiles || lack != 0) return;
    if (!S_ISDIR(st.st_mode))
      out.push_back(stamp(prefix + name, st));
    else if (depth < kMaxDepth)
      lack = walk(folder + '/' + name, prefix + name + '/', depth + 1, out);
  });
  return !listed && is_lack(errno) ? errno : lack;
}

base::Status not_found(std::string_view model) {
  return base::failure(base::Code::kNotFound, "no model '" + std::string(model) + "' in the repository");
}

bool is_folder(const std::string& path) {
  struct stat st {};
  return ::stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
}

bool is_file(const std::string& path) {
  struct stat st {};
  return ::stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode);
}

std::string as_model_name(std::string name) {
  for (char& c : name)
    if (!good_model_name(std::string("m") + c)) c = '_';
  name.resize(std::min<size_t>(name.size(), 128));
  return good_model_name(name) ? name : "model";
}

// Says why an entry of a model's folder is no version, where somebody may have meant it as one; empty where not.
std::string why_no_version(const ModelFolder& folder, const std::string& entry, const struct stat& st) {
  const std::string path = folder.path + '/' + entry;
  if (S_ISLNK(st.st_mode) && version_number(entry) > 0 && is_folder(path))
    return "the folder of a version is no symbolic link; link the model's folder instead";
  if (!S_ISDIR(st.st_mode) || version_number(entry) > 0) return {};
  if (!is_file(path + "/model.onnx") && !is_file(path + "/config.json")) return {};
  return "the folder of a version is called by its number alone: 1, 2, …";
}

bool is_folder_or_link(const std::string& in, const std::string& name, const struct stat& st) {
  return S_ISDIR(st.st_mode) || (S_ISLNK(st.st_mode) && is_folder(in + '/' + name));
}

bool looks_like_model(const std::string& folder) {
  bool found = is_file(folder + "/config.pbtxt") || is_file(folder + "/model.yaml");
  if (found) return true;
  for_each_entry(folder, [&](const std::string& name, const struct stat& st) {
    return found = version_number(name) > 0 && is_folder_or_link(folder, name, st);
  });
  return found;
}

// Whether a folder in it is one of a model: then the root is a repository, whatever files lie in it.
bool holds_models(const std::string& root) {
  bool found = false;
  for_each_entry(root, [&](const std::string& name, const struct stat& st) {
    return found = is_folder_or_link(root, name, st) && looks_like_model(root + '/' + name);
  });
  return found;
}

// The file that makes a root one model, or nothing. Several in GGUF's form are told apart when it is loaded.
std::string usual_file_of_root(const std::string& root) {
  const bool script = is_file(root + "/model.py"), config = is_file(root + "/config.json");
  std::string text, gguf;
  for_each_entry(root, [&](const std::string& name, const struct stat& st) {
    if (S_ISDIR(st.st_mode)) return;
    if (config && name.ends_with(".safetensors")) text = "config.json";
    if (is_gguf(name)) gguf = name;
  });
  if ((text.empty() && gguf.empty() && !script) || holds_models(root)) return {};
  return !text.empty() ? text : script || gguf.empty() ? "model.py" : gguf;
}

// A root that is the folder of a version, with the configuration of its model among its files.
base::Result<ModelFolder> lone_folder(const std::string& root, std::string_view usual) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path given = fs::absolute(root, error).lexically_normal(), real = fs::canonical(given, error);
  if (error) return base::failure(base::Code::kNotFound, "there is no folder " + root);
  if (given.filename().empty()) given = given.parent_path();  // "models/"
  ModelFolder folder;
  folder.name = as_model_name(given.filename().string());
  folder.path = real.string();
  folder.lone_file = usual;
  Stamps& files = folder.versions[1];
  if (int lack = walk(folder.path, "", 0, files); lack != 0) return lacking(folder.name + " cannot be looked at", lack);
  std::sort(files.begin(), files.end());
  for (const auto& file : files)
    if (file.path == "config.pbtxt" || file.path == "model.yaml") folder.shared.push_back(file);
  return folder;
}

// A root that is one model. The name of a file is from the path as it was given; what is opened is where its links
// lead.
base::Result<ModelFolder> lone_model(const std::string& root) {
  if (auto usual = usual_file_of_root(root); !usual.empty()) return lone_folder(root, usual);
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path given = fs::absolute(root, error).lexically_normal(), real = fs::canonical(given, error);
  struct stat st {};
  if (error || ::stat(real.c_str(), &st) != 0) return base::failure(base::Code::kNotFound, "there is no file " + root);
  fs::path parent = given.parent_path();
  bool usual = given.filename() == "model.onnx";
  uint64_t version = usual ? version_number(parent.filename().string()) : 0;
  if (fs::path model = parent.parent_path(); version > 0 && good_model_name(model.filename().string())) {
    auto folder = read_model_folder(model.parent_path().string(), model.filename().string());
    if (!folder) return folder;
    std::erase_if(folder->versions, [&](const auto& v) { return v.first != version; });
    return folder;
  }
  ModelFolder folder;
  folder.name = as_model_name(usual ? parent.filename().string() : given.stem().string());
  folder.path = real.parent_path().string();
  folder.lone_file = real.filename().string();
  folder.versions[1] = {stamp(folder.lone_file, st)};
  return folder;
}

}  // namespace

bool good_model_name(std::string_view name) {
  if (name.empty() || name.size() > 128 || name[0] == '.' || name.find("..") != std::string_view::npos) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '-' || c == ',';
  });
}

base::Status bad_name(const std::string& name) {
  return base::invalid("'" + name.substr(0, 128) +
                       "' cannot be a model's name: letters, digits, '_', '.', '-' and ',' only, at most 128");
}

uint64_t version_number(std::string_view folder) {
  uint64_t number = 0;
  if (folder.empty() || folder.size() > 18 || folder[0] < '1' || folder[0] > '9') return 0;
  auto [end, error] = std::from_chars(folder.data(), folder.data() + folder.size(), number);
  return error == std::errc() && end == folder.data() + folder.size() ? number : 0;
}

bool good_relative_path(std::string_view path) {
  if (path.empty() || path.size() > 1024 || path.find('\0') != std::string_view::npos) return false;
  for (;;) {
    size_t slash = path.find('/');
    std::string_view part = path.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

uint64_t fingerprint(const Stamps& stamps) {
  base::Fnv hash;  // nobody attacks a fingerprint of files that he may write anyway
  for (const auto& s : stamps) {
    hash.add_bytes({s.path.data(), s.path.size() + 1});
    for (uint64_t part : {uint64_t(s.mtime_ns), s.size, s.inode, s.mode, s.owner, s.group}) hash.add(part);
  }
  return hash.value();
}

bool ModelFolder::has(std::string_view shared_file) const {
  return std::any_of(shared.begin(), shared.end(), [&](const FileStamp& s) { return s.path == shared_file; });
}

uint64_t ModelFolder::fingerprint() const {
  base::Fnv hash;
  hash.add(models::fingerprint(shared));
  for (const auto& [number, stamps] : versions) hash.add(number), hash.add(models::fingerprint(stamps));
  return hash.value();
}

uint64_t ModelFolder::fingerprint(uint64_t v) const {
  base::Fnv hash;
  hash.add(models::fingerprint(shared));
  if (auto found = versions.find(v); found != versions.end()) hash.add(models::fingerprint(found->second));
  return hash.value();
}

std::string ModelFolder::relative(uint64_t v, std::string_view file) const {
  return (lone_file.empty() ? std::to_string(v) + '/' : "") + std::string(file);
}

std::vector<uint64_t> ModelFolder::numbers() const {
  std::vector<uint64_t> out;
  for (const auto& [number, stamps] : versions) out.push_back(number);
  return out;
}

bool is_one_model(const std::string& root) { return is_file(root) || !usual_file_of_root(root).empty(); }

base::Result<std::vector<std::string>> list_models(const std::string& root, std::vector<std::string>* odd) {
  std::vector<std::string> names;
  if (is_one_model(root)) {
    auto lone = lone_model(root);
    if (!lone) return lone.error();
    return std::vector<std::string>{lone->name};
  }
  bool listed = for_each_entry(root, [&](std::string name, const struct stat& st) {
    if (!is_folder_or_link(root, name, st)) return;
    if (name == "__pycache__") return;  // beside scripts that make models
    if (good_model_name(name))
      names.push_back(std::move(name));
    else if (odd)
      odd->push_back(std::move(name));
  });
  if (!listed)
    return base::failure(base::Code::kNotFound,
                         "model repository '" + root + "' cannot be listed: " + std::strerror(errno));
  std::sort(names.begin(), names.end());
  return names;
}

base::Result<ModelFolder> read_model_folder(const std::string& root, std::string_view name) {
  if (!is_one_model(root)) return read_folder_of_repository(root, name);
  auto lone = lone_model(root);
  if (lone && lone->name != name) return not_found(name);
  return lone;
}

base::Result<ModelFolder> read_folder_of_repository(const std::string& root, std::string_view name) {
  ModelFolder folder;
  folder.name = name;
  folder.path = root + '/' + folder.name;
  int lack = 0;
  bool listed = for_each_entry(folder.path, [&](const std::string& entry, const struct stat& st) {
    if (auto why = why_no_version(folder, entry, st); !why.empty())
      folder.skipped[base::presentable(entry, kLongestEntry)] = std::move(why);
    if (!S_ISDIR(st.st_mode))
      folder.shared.push_back(stamp(entry, st));
    else if (uint64_t number = version_number(entry); number > 0 && lack == 0)
      lack = walk(folder.path + '/' + entry, "", 0, folder.versions[number]);
  });
  if (!listed && (errno == ENOENT || errno == ENOTDIR)) return not_found(name);
  if (!listed && is_lack(errno)) lack = errno;
  if (lack != 0) return lacking(folder.name + " cannot be looked at", lack);
  if (!listed) folder.wrong = folder.name + " cannot be listed: " + std::strerror(errno);
  std::sort(folder.shared.begin(), folder.shared.end());
  for (auto& [number, stamps] : folder.versions) std::sort(stamps.begin(), stamps.end());
  return folder;
}

base::Result<ModelFolder> find_model_folder(const std::vector<std::string>& roots, std::string_view name) {
  for (const auto& root : roots)
    if (auto folder = read_model_folder(root, name); folder || folder.error().code != base::Code::kNotFound)
      return folder;
  return not_found(name);
}

base::Status check_file(const std::string& folder, std::string_view relative) {
  auto fd = open_regular(folder, relative);
  return fd ? base::Status{} : fd.error();
}

base::Result<std::string> read_file(const std::string& folder, std::string_view relative, size_t limit) {
  auto fd = open_regular(folder, relative);
  if (!fd) return fd.error();
  std::string text;
  char buffer[65536];
  for (;;) {
    ssize_t n = ::read(fd->fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      return base::failure(base::Code::kUnavailable,
                           std::string(relative) + " cannot be read: " + std::strerror(errno));
    if (n == 0) return text;
    text.append(buffer, size_t(n));
    if (text.size() > limit)
      return base::invalid(std::string(relative) + " is longer than " + std::to_string(limit) + " bytes");
  }
}

}  // namespace weir::models
