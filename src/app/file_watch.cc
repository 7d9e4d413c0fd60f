#include "app/file_watch.h"

#include <utility>

namespace weir::app {

FileWatch::FileWatch(std::vector<std::string> files) : files_(std::move(files)) {
  std::erase(files_, "");
  skip();
}

std::vector<FileTime> FileWatch::times() const {
  std::vector<FileTime> out;
  for (const auto& file : files_) out.push_back(file_time(file));
  return out;
}

bool FileWatch::look() {
  auto now = times();
  const bool rests = now == std::exchange(seen_, now);
  if (!rests || now == read_) return false;
  read_ = std::move(now);
  return true;
}

}  // namespace weir::app
