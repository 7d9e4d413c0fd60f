// Files of a model's folder. Names are names, not paths: no separators, no links, regular files only, so that a model
// cannot reach what lies outside of its folder.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/bus_error_guard.h"
#include "base/status.h"

namespace weir::llm {

// A file's bytes, mapped for reading. They change under us if the file is written to: loading reads each byte once. Of
// a file that is cut short meanwhile, or cannot be read, the rest is zeros, and the mapping is lost.
class Mapping {
 public:
  Mapping() = default;
  Mapping(const std::byte* data, size_t size);
  ~Mapping();
  Mapping(Mapping&& o) noexcept;
  Mapping& operator=(Mapping&& o) noexcept;
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  // False: too many mappings are guarded already, so that a file that is cut short would end the process.
  bool guarded() const { return !data_ || *guard_; }
  bool lost() const { return data_ && guard_->lost(); }

 private:
  std::unique_ptr<base::BusErrorGuard> guard_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

class Folder {
 public:
  // Errors: NOT_FOUND.
  static base::Result<Folder> open(const std::string& path);
  ~Folder();
  Folder(Folder&& o) noexcept;
  Folder& operator=(Folder&&) = delete;

  // Errors, naming the file: NOT_FOUND, INVALID_ARGUMENT (a link, not a regular file, larger than `limit`).
  base::Result<std::string> read(std::string_view name, size_t limit) const;
  // The same; empty when there is no such file.
  base::Result<std::string> read_if_there(std::string_view name, size_t limit) const;
  // The same, and RESOURCE_EXHAUSTED when too many files are mapped.
  base::Result<Mapping> map(std::string_view name) const;
  // A folder in this one. Errors: NOT_FOUND, INVALID_ARGUMENT (a link, no name of a folder).
  base::Result<Folder> inside(std::string_view name) const;

 private:
  explicit Folder(int fd) : fd_(fd) {}
  base::Result<int> open_file(std::string_view name, size_t& size) const;
  int fd_ = -1;
};

}  // namespace weir::llm
