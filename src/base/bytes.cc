#include "base/bytes.h"

#include <array>
#include <cstdint>
#include <new>

#include "base/memory_ledger.h"
#include "base/recycled.h"

namespace weir::base {
namespace {

constexpr size_t kAlign = 64;

struct StringSlab final : Slab, Recycled<StringSlab> {
  std::string text;
  explicit StringSlab(std::string t) : Slab(nullptr, 0, give_back), text(std::move(t)) {
    data = reinterpret_cast<std::byte*>(text.data());
    capacity = text.size();
  }
  static void give_back(Slab* slab) {
    auto* own = static_cast<StringSlab*>(slab);
    SpareText::keep(std::move(own->text));
    delete own;
  }
};

struct HeapSlab final : Slab {
  void* memory;  // where the allocation begins; this lies inside it
  HeapSlab(std::byte* data, size_t bytes, void* m) : Slab(data, bytes, give_back), memory(m) {}
  static void give_back(Slab* slab);
};

// The memory of a small HeapSlab: answers of a few hundred bytes are put together in one each.
struct SmallMemory : Recycled<SmallMemory> {
  static constexpr size_t kData = 448;
  static bool holds(size_t bytes) { return kRecycles && bytes <= kData; }
  std::array<std::byte, kData + 2 * kAlign - __STDCPP_DEFAULT_NEW_ALIGNMENT__> all;
};

void HeapSlab::give_back(Slab* slab) {
  void* memory = static_cast<HeapSlab*>(slab)->memory;
  const bool small = SmallMemory::holds(slab->capacity);
  static_cast<HeapSlab*>(slab)->~HeapSlab();
  if (small)
    delete static_cast<SmallMemory*>(memory);
  else
    ::operator delete(memory);
}

class Heap final : public SlabSource {
 public:
  Slab* take(size_t bytes) override { return heap_slab(bytes); }
};

}  // namespace

// Header and data in one piece of memory: the header takes the 64 bytes before the data. Aligned by hand, because an
// aligned operator new goes past the allocator's caches, and small slabs come and go with every call.
Slab* heap_slab(size_t bytes) {
  static_assert(sizeof(HeapSlab) <= kAlign);
  void* memory = SmallMemory::holds(bytes) ? new SmallMemory
                                           : ::operator new(bytes + 2 * kAlign - __STDCPP_DEFAULT_NEW_ALIGNMENT__);
  auto at = (reinterpret_cast<uintptr_t>(memory) + kAlign - 1) & ~uintptr_t(kAlign - 1);
  return new (reinterpret_cast<void*>(at)) HeapSlab(reinterpret_cast<std::byte*>(at + kAlign), bytes, memory);
}

bool on_heap(const Slab* slab) {
  return slab && (slab->release == HeapSlab::give_back || slab->release == StringSlab::give_back);
}

SlabSource& heap() {
  static Heap source;
  return source;
}

Bytes Bytes::copy_of(std::string_view text) {
  if (text.empty()) return {};
  Block block(heap_slab(text.size()));
  block.append(text.data(), text.size());
  return block.freeze();
}

Bytes Bytes::adopt(std::string text) {
  if (text.empty()) return {};
  auto* slab = new StringSlab(std::move(text));
  return {slab, slab->data, slab->capacity};
}

}  // namespace weir::base
