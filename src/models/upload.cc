#include "models/upload.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/encoding.h"
#include "models/folder.h"

namespace weir::models {
namespace {

constexpr std::string_view kConfig = "config", kFile = "file:";
constexpr size_t kLongestName = 255;  // NAME_MAX

base::Status io_failure(std::string_view what) {
  return base::failure(base::Code::kUnavailable, std::string(what) + ": " + std::strerror(errno));
}

base::Status write_file(const std::string& path, std::string_view content) {
  int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return io_failure("an uploaded file cannot be stored");
  while (!content.empty()) {
    ssize_t n = ::write(fd, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      auto status = io_failure("an uploaded file cannot be stored");
      ::close(fd);
      return status;
    }
    content.remove_prefix(size_t(n));
  }
  return ::close(fd) == 0 ? base::Status{} : io_failure("an uploaded file cannot be stored");
}

size_t longest_name(std::string_view path) {
  size_t longest = 0;
  while (!path.empty()) {
    const size_t end = std::min(path.find('/'), path.size());
    longest = std::max(longest, end);
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return longest;
}

// "file:1/model.onnx": a version and a path in its folder. Triton's words and code for a name that no file system takes
// are what its clients test.
base::Status check_key(std::string_view key) {
  std::string_view path = key.substr(kFile.size());
  if (longest_name(path) > kLongestName)
    return base::failure(base::Code::kInternal,
                         "failed to poll from model repository: a load parameter has a file name of more than " +
                             std::to_string(kLongestName) + " bytes");
  size_t slash = path.find('/');
  if (slash == std::string_view::npos || version_number(path.substr(0, slash)) == 0 || !good_relative_path(path))
    return base::invalid("load parameter '" + std::string(key) + "': expected file:<version>/<path>");
  return {};
}

base::Status refused(const std::string& what) {
  return base::invalid("a load request may not bring " + what +
                       ": put the model into the repository, and load it from there");
}

// Programs come from the repository alone: who may upload a model may not run one with the server's rights. Nor may
// they choose whom the server connects to, and which of its files it shows there as a key.
base::Status check_rights(const ModelConfig& config, const LoadParameters& parameters) {
  bool files = false, python = config.engine == "python";
  for (const auto& [key, value] : parameters) {
    files |= key.starts_with(kFile);
    python |= config.engine.empty() && key.ends_with("/model.py");
  }
  if (config.engine == "forward") return refused("addresses of other servers (engine forward)");
  if (config.engine == "process") return refused("a program (engine process)");
  return python && files ? refused("a program (engine python)") : base::Status();
}

}  // namespace

base::Result<std::unique_ptr<Upload>> Upload::make(std::string_view model, const LoadParameters& parameters,
                                                   const msg::BatchPolicy& defaults) {
  std::unique_ptr<Upload> upload(new Upload);
  bool files = false;
  for (const auto& [key, value] : parameters) {
    if (key == kConfig) continue;
    if (!key.starts_with(kFile))
      return base::invalid("unknown load parameter '" + key + "'; known are config and file:<version>/<path>");
    if (auto s = check_key(key); !s.ok()) return s;
    files = true;
  }
  auto config = parameters.find(std::string(kConfig));
  if (config == parameters.end()) return base::invalid("uploaded files need a 'config' parameter beside them");
  auto parsed = parse_config_json(config->second, defaults);
  if (!parsed) return parsed.error();
  upload->config_ = std::move(*parsed);
  if (auto s = check(upload->config_, model); !s.ok()) return s;
  if (auto s = check_rights(upload->config_, parameters); !s.ok()) return s;
  if (files)
    if (auto s = upload->write(model, parameters); !s.ok()) return s;
  return upload;
}

base::Status Upload::write(std::string_view model, const LoadParameters& parameters) {
  std::error_code error;
  std::string name = (std::filesystem::temp_directory_path(error) / "weir-XXXXXX").string();
  if (error || !::mkdtemp(name.data())) return io_failure("there is no place for uploaded files");
  root_ = name;
  for (const auto& [key, value] : parameters) {
    if (!key.starts_with(kFile)) continue;
    std::filesystem::path path = std::filesystem::path(root_) / model / key.substr(kFile.size());
    std::filesystem::create_directories(path.parent_path(), error);
    if (error) return base::failure(base::Code::kUnavailable, "an uploaded file cannot be stored: " + error.message());
    if (auto s = write_file(path.string(), value); !s.ok()) return s;
  }
  return {};
}

Upload::~Upload() {
  std::error_code ignored;
  if (!root_.empty()) std::filesystem::remove_all(root_, ignored);
}

}  // namespace weir::models
