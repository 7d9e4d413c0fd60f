#include "app/file_watch.h"

#include <sys/stat.h>

#include <utility>

namespace weir::app {

FileWatch::FileWatch(std::vector<std::string> files) : files_(std::move(files)) {
  std::erase(files_, "");
  skip(), took();
}

std::vector<FileTime> FileWatch::times() const {
  std::vector<FileTime> out;
  for (const auto& file : files_) out.push_back(file_time(file));
  return out;
}

std::string FileWatch::waiting() const {
  for (const auto& file : files_)
    if (struct stat info{}; ::stat(file.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode))
      return file;
  return {};
}

FileWatch::Seen FileWatch::look() {
  auto now = times();
  const bool rests = now == std::exchange(seen_, now);
  if (!rests || now == read_) return Seen::kNothing;
  return now == std::exchange(told_, now) ? Seen::kUnread : Seen::kChanged;
}

}  // namespace weir::app
