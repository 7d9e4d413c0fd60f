// Counts the bytes that a program has from malloc, by LD_PRELOAD: what is live now and the most that ever was, beside
// what the kernel says of its pages. Nothing of it is in the program.
//
//   g++ -O2 -shared -fPIC malloc_counter.cc -o libmalloc_counter.so
//   LD_PRELOAD=…/libmalloc_counter.so MALLOC_COUNTS=FILE program
//
// FILE has two 64-bit numbers: live, peak. Whoever reads may write a 0 into peak, which then begins anew. Each thread
// tells what it has gathered once that is 32 KiB, so both are exact to 32 KiB per thread. Sizes are
// malloc_usable_size() of whatever allocator the program brings; what it maps itself (slabs of 2 MiB and more) is not
// malloc's.
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

struct Counts {
  std::atomic<int64_t> live, peak;
};
Counts own{};
std::atomic<Counts*> counts{&own};

constexpr int64_t kGathered = 32 << 10;
thread_local int64_t gathered __attribute__((tls_model("initial-exec"))) = 0;

void tell() {
  Counts& to = *counts.load(std::memory_order_relaxed);
  const int64_t live = to.live.fetch_add(gathered, std::memory_order_relaxed) + gathered;
  gathered = 0;
  int64_t peak = to.peak.load(std::memory_order_relaxed);
  while (live > peak && !to.peak.compare_exchange_weak(peak, live, std::memory_order_relaxed)) {
  }
}
void add(int64_t bytes) {
  gathered += bytes;
  if (gathered > kGathered || gathered < -kGathered) tell();
}

template <class F>
F* next(F*& found, const char* name) {
  if (!found) found = reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
  return found;
}

// dlsym() may allocate before the next allocator is known: out of this, and never given back.
alignas(64) char first[1 << 16];
std::atomic<size_t> first_used{0};
thread_local bool looking __attribute__((tls_model("initial-exec"))) = false;
bool is_first(const void* p) { return p >= first && p < first + sizeof first; }
void* take_first(size_t bytes) {
  const size_t at = first_used.fetch_add((bytes + 63) / 64 * 64);
  return at + bytes <= sizeof first ? first + at : nullptr;
}

using Malloc = void*(size_t);
using Calloc = void*(size_t, size_t);
using Realloc = void*(void*, size_t);
using Free = void(void*);
using Aligned = void*(size_t, size_t);
using Posix = int(void**, size_t, size_t);
using Usable = size_t(void*);
Malloc* malloc_ = nullptr;
Calloc* calloc_ = nullptr;
Realloc* realloc_ = nullptr;
Free* free_ = nullptr;
Aligned* aligned_ = nullptr;
Aligned* memalign_ = nullptr;
Posix* posix_ = nullptr;
Usable* usable_ = nullptr;

void find_all() {
  looking = true;
  next(usable_, "malloc_usable_size"), next(free_, "free"), next(calloc_, "calloc"), next(realloc_, "realloc");
  next(aligned_, "aligned_alloc"), next(memalign_, "memalign"), next(posix_, "posix_memalign"), next(malloc_, "malloc");
  looking = false;
}
bool ready() {
  if (!malloc_ && !looking) find_all();
  return malloc_ && !looking;
}

void* count(void* p) {
  if (p) add(int64_t(usable_(p)));
  return p;
}
void uncount(void* p) {
  if (p && !is_first(p)) add(-int64_t(usable_(p)));
}

__attribute__((constructor)) void open_counts() {
  (void)ready();
  const char* path = std::getenv("MALLOC_COUNTS");
  const int fd = path ? ::open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
  if (fd < 0 || ::ftruncate(fd, sizeof(Counts)) != 0) return;
  void* at = ::mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  if (at == MAP_FAILED) return;
  auto* shared = static_cast<Counts*>(at);
  shared->live = own.live.load(), shared->peak = own.peak.load();
  counts = shared;
}

}  // namespace

extern "C" {
void* malloc(size_t bytes) { return ready() ? count(malloc_(bytes)) : take_first(bytes); }
void* calloc(size_t n, size_t bytes) { return ready() ? count(calloc_(n, bytes)) : take_first(n * bytes); }
void free(void* p) {
  if (!p || is_first(p) || !ready()) return;
  uncount(p);
  free_(p);
}
void* realloc(void* p, size_t bytes) {
  if (!ready()) return take_first(bytes);
  if (is_first(p)) {
    void* moved = malloc(bytes);
    const size_t most = size_t(first + sizeof first - static_cast<char*>(p));
    return moved ? std::memcpy(moved, p, bytes < most ? bytes : most) : nullptr;
  }
  const int64_t before = p ? int64_t(usable_(p)) : 0;
  void* moved = realloc_(p, bytes);
  if (moved || bytes == 0) add(-before);
  return count(moved);
}
void* aligned_alloc(size_t align, size_t bytes) { return ready() ? count(aligned_(align, bytes)) : nullptr; }
void* memalign(size_t align, size_t bytes) { return ready() ? count(memalign_(align, bytes)) : nullptr; }
int posix_memalign(void** out, size_t align, size_t bytes) {
  if (!ready()) return 12;  // ENOMEM
  const int error = posix_(out, align, bytes);
  if (error == 0) count(*out);
  return error;
}
}

// An allocator may bring operators of its own, which would go past the functions above.
void* operator new(size_t bytes) {
  void* p = malloc(bytes > 0 ? bytes : 1);
  if (!p) throw std::bad_alloc();
  return p;
}
void* operator new[](size_t bytes) { return operator new(bytes); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return malloc(bytes > 0 ? bytes : 1); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return malloc(bytes > 0 ? bytes : 1); }
void* operator new(size_t bytes, std::align_val_t align) {
  void* p = memalign(size_t(align), bytes > 0 ? bytes : 1);
  if (!p) throw std::bad_alloc();
  return p;
}
void* operator new[](size_t bytes, std::align_val_t align) { return operator new(bytes, align); }
void* operator new(size_t bytes, std::align_val_t align, const std::nothrow_t&) noexcept {
  return memalign(size_t(align), bytes > 0 ? bytes : 1);
}
void* operator new[](size_t bytes, std::align_val_t align, const std::nothrow_t&) noexcept {
  return memalign(size_t(align), bytes > 0 ? bytes : 1);
}
void operator delete(void* p) noexcept { free(p); }
void operator delete[](void* p) noexcept { free(p); }
void operator delete(void* p, size_t) noexcept { free(p); }
void operator delete[](void* p, size_t) noexcept { free(p); }
void operator delete(void* p, std::align_val_t) noexcept { free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { free(p); }
void operator delete[](void* p, size_t, std::align_val_t) noexcept { free(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { free(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { free(p); }
void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept { free(p); }
void operator delete[](void* p, std::align_val_t, const std::nothrow_t&) noexcept { free(p); }
