#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "emulator.h"

namespace emulator {
namespace {

struct Guarded {
  std::byte* base;
  size_t bytes;
};
std::mutex guarding;
std::map<std::byte*, Guarded> all_guarded;  // under guarding

}  // namespace

std::byte* map_pages(size_t bytes) {
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) std::perror("emulator: mmap"), std::abort();
  return static_cast<std::byte*>(at);
}

std::byte* guarded(size_t bytes) {
  size_t held = (std::max<size_t>(bytes, 1) + 15) / 16 * 16, pages = (held + kPage - 1) / kPage * kPage;
  std::byte* base = map_pages(pages + kPage);
  ::mprotect(base + pages, kPage, PROT_NONE);
  std::byte* data = base + pages - held;
  std::memset(data, 0xff, held);
  std::lock_guard lock(guarding);
  all_guarded[data] = {base, pages + kPage};
  return data;
}

void drop_guarded(std::byte* data) {
  std::lock_guard lock(guarding);
  auto found = all_guarded.find(data);
  if (found == all_guarded.end()) return;
  ::munmap(found->second.base, found->second.bytes);
  all_guarded.erase(found);
}

}  // namespace emulator
