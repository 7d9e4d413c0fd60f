// FileWatch: whether files that belong together have changed since they were last read. Looked at again and again, by
// one thread.
#pragma once

#include <string>
#include <vector>

#include "app/file_time.h"

namespace weir::app {

class FileWatch {
 public:
  // Empty names are left out. The files are taken to be read now.
  explicit FileWatch(std::vector<std::string> files);

  bool empty() const { return files_.empty(); }
  // True once for each change, when all files were the same at two looks in a row: who renews a certificate and its key
  // writes one after the other. Blocks on the disk.
  bool look();
  // They are about to be read for another reason.
  void skip() { read_ = seen_ = times(); }

 private:
  std::vector<FileTime> times() const;

  std::vector<std::string> files_;
  std::vector<FileTime> read_, seen_;
};

}  // namespace weir::app
