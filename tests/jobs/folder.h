// A folder of a test's own, which goes with it.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace weir::jobs {

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "weir-jobs-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }
  std::string file() const { return path_ + "/jobs.db"; }

 private:
  std::string path_;
};

}  // namespace weir::jobs
