#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "emulator.h"
#include "written.h"

namespace emulator {
namespace {

struct Guarded {
  std::byte* base;
  size_t pages, bytes;  // the pages in front of the unmapped one; all of it
  bool watched = false, written = false;

  void protect(int how) const { ::mprotect(base, pages, how); }
};
std::mutex guarding;
std::map<std::byte*, Guarded> all_guarded;  // under guarding
thread_local bool watches = false, hides = false;

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
  all_guarded[data] = {base, pages, pages + kPage};
  return data;
}

void drop_guarded(std::byte* data) {
  std::lock_guard lock(guarding);
  auto found = all_guarded.find(data);
  if (found == all_guarded.end()) return;
  ::munmap(found->second.base, found->second.bytes);
  all_guarded.erase(found);
}

// Writes of the host between two launches are noticed, too, and left out: on_fault().
void begin_watch() {
  if (!kFindsFaults) return;
  watches = true;
  std::lock_guard lock(guarding);
  for (auto& [data, buffer] : all_guarded)
    if (!buffer.written && !buffer.watched) buffer.watched = true, buffer.protect(PROT_READ);
}

void end_watch() { watches = false; }

void hide_written() {
  if (!kFindsFaults) return;
  hides = true;
  std::lock_guard lock(guarding);
  for (auto& [data, buffer] : all_guarded)
    if (buffer.written) buffer.protect(PROT_NONE);
}

void show_written() {
  if (!kFindsFaults) return;
  hides = false;
  std::lock_guard lock(guarding);
  for (auto& [data, buffer] : all_guarded)
    if (buffer.written) buffer.protect(PROT_READ | PROT_WRITE);
}

Touch on_fault(const void* address) {
  auto* at = static_cast<std::byte*>(const_cast<void*>(address));
  std::lock_guard lock(guarding);
  auto found = all_guarded.upper_bound(at);
  if (found == all_guarded.begin()) return Touch::kElsewhere;
  Guarded& buffer = std::prev(found)->second;
  if (at < buffer.base || at >= buffer.base + buffer.pages) return Touch::kElsewhere;
  if (buffer.written) return hides ? Touch::kHidden : Touch::kElsewhere;
  if (!buffer.watched) return Touch::kElsewhere;
  buffer.watched = false, buffer.written = watches;
  buffer.protect(hides && watches ? PROT_NONE : PROT_READ | PROT_WRITE);
  return buffer.written && hides ? Touch::kHidden : Touch::kGoesOn;
}

}  // namespace emulator
