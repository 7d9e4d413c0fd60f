// A folder of its own for one test, removed at the end.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <utility>

namespace weir::test {

class Disk {
 public:
  // Files that are there from the start: paths and contents.
  using Files = std::initializer_list<std::pair<const char*, const char*>>;
  explicit Disk(Files files = {}) {
    std::string name = (std::filesystem::temp_directory_path() / "weir-test-XXXXXX").string();
    root_ = ::mkdtemp(name.data());
    for (const auto& [path, content] : files) write(path, content);
  }
  ~Disk() { std::filesystem::remove_all(root_); }

  const std::string& root() const { return root_; }
  // Replaces the file by rename, as careful writers do: a new inode every time.
  void write(const std::string& path, const std::string& content) {
    auto at = std::filesystem::path(root_) / path;
    std::filesystem::create_directories(at.parent_path());
    std::ofstream(at.string() + "~") << content;
    std::filesystem::rename(at.string() + "~", at);
  }
  void link(const std::string& path, const std::string& target) {
    std::filesystem::create_symlink(target, std::filesystem::path(root_) / path);
  }
  void remove(const std::string& path) { std::filesystem::remove_all(std::filesystem::path(root_) / path); }

 private:
  std::string root_;
};

}  // namespace weir::test
