#include "app/file_time.h"

#include <sys/stat.h>

namespace weir::app {

FileTime file_time(const std::string& file) {
  struct stat info {};
  if (file.empty() || ::stat(file.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return {};
  return {int64_t(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec,
          uint64_t(info.st_size) ^ uint64_t(info.st_ino) << 32};
}

}  // namespace weir::app
