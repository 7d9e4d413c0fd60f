#include "device/slab_memory.h"

#include <sys/mman.h>

#include <mutex>
#include <new>

#include "device/arena.h"
#include "device/device.h"
#include "device/size_class.h"

namespace weir::device {
namespace {

class System final : public SlabMemory {
 public:
  std::byte* take(size_t bytes, size_t align) override {
    if (align >= kHugePage) return map_huge(bytes);
    return static_cast<std::byte*>(::operator new (bytes, std::align_val_t{align}, std::nothrow));
  }
  void give(std::byte* data, size_t bytes, size_t align) override {
    if (align >= kHugePage) return unmap_huge(data, bytes);
    ::operator delete (static_cast<void*>(data), std::align_val_t{align});
  }
};

class Parcelled final : public SlabMemory {
 public:
  explicit Parcelled(PinnedBlock block) : block_(std::move(block)), arena_(block_.size()) {}

  std::byte* take(size_t bytes, size_t align) override {
    std::lock_guard lock(mutex_);
    auto at = arena_.take(bytes, align, align >= kHugePage ? Arena::End::kHigh : Arena::End::kLow);
    return at ? block_.data() + *at : nullptr;
  }
  void give(std::byte* data, size_t bytes, size_t) override {
    std::lock_guard lock(mutex_);
    arena_.give(uint64_t(data - block_.data()), bytes);
  }

 private:
  PinnedBlock block_;
  std::mutex mutex_;
  Arena arena_;  // under mutex_
};

}  // namespace

std::unique_ptr<SlabMemory> system_memory() { return std::make_unique<System>(); }
std::unique_ptr<SlabMemory> block_memory(PinnedBlock block) { return std::make_unique<Parcelled>(std::move(block)); }

std::byte* map_huge(size_t bytes) {
  size_t span = bytes + kHugePage;
  void* raw = mmap(nullptr, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  auto from = reinterpret_cast<uintptr_t>(raw);
  uintptr_t at = (from + kHugePage - 1) & ~(kHugePage - 1);
  if (at > from) munmap(raw, at - from);
  if (uintptr_t end = at + bytes, last = from + span; last > end) munmap(reinterpret_cast<void*>(end), last - end);
  madvise(reinterpret_cast<void*>(at), bytes, MADV_HUGEPAGE);
  return reinterpret_cast<std::byte*>(at);
}

void unmap_huge(std::byte* data, size_t bytes) { munmap(data, bytes); }

}  // namespace weir::device
