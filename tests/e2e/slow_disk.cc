// Loaded before a program (LD_PRELOAD): while a file of the name SLOW_DISK is there, what the program has written to
// its SQLite files does not reach the disk, and whoever waits for that waits.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

bool is_database(int file) {
  char link[64], path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t size = ::readlink(link, path, sizeof path - 1);
  if (size < 0) return false;
  path[size] = 0;
  return std::strstr(path, ".db") != nullptr;
}

void wait_for_disk(int file) {
  const char* stands = std::getenv("SLOW_DISK");
  while (stands && is_database(file) && ::access(stands, F_OK) == 0) ::usleep(10'000);
}

int synchronize(const char* name, int file) {
  wait_for_disk(file);
  return reinterpret_cast<int (*)(int)>(::dlsym(RTLD_NEXT, name))(file);
}

}  // namespace

extern "C" {
int fdatasync(int file) { return synchronize("fdatasync", file); }
int fsync(int file) { return synchronize("fsync", file); }
}
