#include "engines/llm/cpu/memory.h"

#include <sys/mman.h>

namespace weir::llm {
namespace {
constexpr size_t kPage = 4096;
}

Memory::Memory(size_t bytes) {
  size_t whole = (bytes + kPage - 1) / kPage * kPage;
  if (whole < bytes || whole == 0) return;
  void* p = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return;
  madvise(p, whole, MADV_HUGEPAGE);  // a hint; without it everything works, more slowly
  data_ = static_cast<std::byte*>(p), size_ = whole;
}

Memory::~Memory() {
  if (data_) munmap(data_, size_);
}

}  // namespace weir::llm
