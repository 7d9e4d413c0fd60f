// LockedFile: a small text file that several processes change, one at a time, and that readers always find whole: it is
// exchanged by a rename. Blocking; for the command line.
#pragma once

#include <sys/stat.h>

#include <string>

#include "base/status.h"
#include "net/fd.h"

namespace weir::app {

class LockedFile {
 public:
  enum class Missing : uint8_t { kMake, kFail };
  // Waits for the lock (flock(2)), which others keep for as long as an edit takes. Follows symbolic links. A file that
  // is made is its folder's group's, too, and has mode 0640: root makes it, and a service of that group reads it. Where
  // that group cannot be given, it is 0600. Errors: FAILED_PRECONDITION with the system's reason.
  static base::Result<LockedFile> open(const std::string& path, Missing missing);

  const std::string& text() const { return text_; }
  const std::string& path() const { return path_; }
  // Takes the place of the file, with its owner and mode, once it is on the disk whole. Errors: as above; the file is
  // then as it was.
  base::Status replace(const std::string& text);

 private:
  LockedFile(std::string path, net::Fd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  base::Status read();
  base::Status write_fresh(const std::string& temporary, const net::Fd& fresh, const std::string& text) const;

  std::string path_;
  net::Fd fd_;  // holds the lock
  std::string text_;
};

}  // namespace weir::app
