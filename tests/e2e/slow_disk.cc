// Loaded before a program (LD_PRELOAD): while a file of the name SLOW_DISK is there, what the program has written to
// its SQLite files does not reach the disk, and whoever waits for that waits. Writes to files named *.trace do not
// return.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

bool is_named(int file, const char* part) {
  char link[64], path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t size = ::readlink(link, path, sizeof path - 1);
  if (size < 0) return false;
  path[size] = 0;
  return std::strstr(path, part) != nullptr;
}

void wait_for_disk(int file, const char* part) {
  const char* stands = std::getenv("SLOW_DISK");
  while (stands && is_named(file, part) && ::access(stands, F_OK) == 0) ::usleep(10'000);
}

int synchronize(const char* name, int file) {
  wait_for_disk(file, ".db");
  return reinterpret_cast<int (*)(int)>(::dlsym(RTLD_NEXT, name))(file);
}

}  // namespace

extern "C" {
int fdatasync(int file) { return synchronize("fdatasync", file); }
int fsync(int file) { return synchronize("fsync", file); }
ssize_t write(int file, const void* data, size_t size) {
  static const auto real = reinterpret_cast<ssize_t (*)(int, const void*, size_t)>(::dlsym(RTLD_NEXT, "write"));
  if (std::getenv("SLOW_DISK") && ::access(std::getenv("SLOW_DISK"), F_OK) == 0) wait_for_disk(file, ".trace");
  return real(file, data, size);
}
}
