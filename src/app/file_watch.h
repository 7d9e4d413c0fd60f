// FileWatch: whether files that belong together have changed since they were last read. Looked at again and again, by
// one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/file_time.h"

namespace weir::app {

class FileWatch {
 public:
  // Empty names are left out. The files are taken to be read now.
  explicit FileWatch(std::vector<std::string> files);

  bool empty() const { return files_.empty(); }
  // kChanged: once for each change, when all files were the same at two looks in a row: who renews a certificate and
  // its key writes one after the other. kUnread: at each look from then on until took(), as what keeps files from being
  // read need not change them. Blocks on the disk.
  enum class Seen : uint8_t { kNothing, kChanged, kUnread };
  Seen look();
  // The first of the files whose opening may wait for somebody: a pipe, or a device. Empty: none.
  std::string waiting() const;
  // They are about to be read for another reason.
  void skip() { told_ = seen_ = times(); }
  // They have been read, as they were at the last kChanged, kUnread or skip().
  void took() { read_ = told_; }

 private:
  std::vector<FileTime> times() const;

  std::vector<std::string> files_;
  std::vector<FileTime> read_, seen_, told_;
};

}  // namespace weir::app
