// Loaded before a server's libraries: the wall clock is as many seconds off as the file that WALL_CLOCK names says, a
// number of 8 bytes that may change at any time. The steady clock is left alone.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

namespace {

int64_t seconds_off() {
  static const std::atomic<int64_t>* file = [] {
    const char* path = getenv("WALL_CLOCK");
    const int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void* at = fd < 0 ? MAP_FAILED : mmap(nullptr, 8, PROT_READ, MAP_SHARED, fd, 0);
    if (fd >= 0) close(fd);
    return at == MAP_FAILED ? nullptr : static_cast<const std::atomic<int64_t>*>(at);
  }();
  return file ? file->load(std::memory_order_relaxed) : 0;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* out) noexcept {
  static const auto real = reinterpret_cast<int (*)(clockid_t, timespec*)>(dlsym(RTLD_NEXT, "clock_gettime"));
  const int result = real(clock, out);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) out->tv_sec += seconds_off();
  return result;
}

int gettimeofday(timeval* out, void*) noexcept {
  timespec now{};
  const int result = clock_gettime(CLOCK_REALTIME, &now);
  if (result == 0) *out = {now.tv_sec, now.tv_nsec / 1000};
  return result;
}

time_t time(time_t* out) noexcept {
  timespec now{};
  (void)clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}
}
