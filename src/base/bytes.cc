#include "base/bytes.h"

#include <new>

namespace weir::base {
namespace {

constexpr size_t kAlign = 64;

struct StringSlab final : Slab {
  std::string text;
  explicit StringSlab(std::string t)
      : Slab(nullptr, 0, [](Slab* s) { delete static_cast<StringSlab*>(s); }), text(std::move(t)) {
    data = reinterpret_cast<std::byte*>(text.data());
    capacity = text.size();
  }
};

class Heap final : public SlabSource {
 public:
  Slab* take(size_t bytes) override { return heap_slab(bytes); }
};

}  // namespace

// The header takes the first 64 bytes of the allocation, so that the data behind it stays aligned.
Slab* heap_slab(size_t bytes) {
  static_assert(sizeof(Slab) <= kAlign);
  auto* memory = static_cast<std::byte*>(::operator new (kAlign + bytes, std::align_val_t{kAlign}));
  return new (memory) Slab(memory + kAlign, bytes, [](Slab* slab) {
    slab->~Slab();
    ::operator delete (static_cast<void*>(slab), std::align_val_t{kAlign});
  });
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
