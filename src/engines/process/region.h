// Region: memory that the server shares with one child, as a memfd whose size nobody can change any more. A child that
// maps it can write what it likes, at any time; it cannot make an access of the server fail. So what the server reads
// from a region is copied first, and looked at then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "base/memory_ledger.h"
#include "base/status.h"

namespace weir::process {

// Tensors in a region begin at multiples of kRegionAlign bytes.
inline constexpr uint64_t kRegionAlign = 64;
constexpr uint64_t aligned(uint64_t at) { return (at + kRegionAlign - 1) / kRegionAlign * kRegionAlign; }

class Region {
 public:
  Region() = default;
  // Rounded up to a power of two, at least 64 KiB, and charged to `ledger` (may be null) while it lives. Errors:
  // RESOURCE_EXHAUSTED.
  static base::Result<Region> make(uint64_t bytes, base::MemoryLedger* ledger);
  Region(Region&& o) noexcept
      : fd_(std::exchange(o.fd_, -1)),
        data_(std::exchange(o.data_, nullptr)),
        size_(std::exchange(o.size_, 0)),
        charge_(std::move(o.charge_)) {}
  Region& operator=(Region&& o) noexcept {
    std::swap(fd_, o.fd_), std::swap(data_, o.data_), std::swap(size_, o.size_), std::swap(charge_, o.charge_);
    return *this;
  }
  ~Region();

  int fd() const { return fd_; }
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  bool has(uint64_t offset, uint64_t bytes) const { return offset <= size_ && bytes <= size_ - offset; }

 private:
  int fd_ = -1;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  base::MemoryCharge charge_;
};

}  // namespace weir::process
