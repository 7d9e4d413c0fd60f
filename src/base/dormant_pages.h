// DormantPages: whole pages of memory whose content is put away while nobody uses it.
//
// An idle connection keeps state of libraries (sessions, tables) of which most bytes are zero. rest() writes the rest
// of them into one block of the heap, and the system gets the pages back; wake() writes them where they were, so that
// pointers into the pages stay valid from one use to the next.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace weir::base {

// Slots of one size in one range of addresses, which is reserved with the first slot and never unmapped: what nobody
// uses takes addresses, not memory. Any thread. It outlives its slots.
class PagePool {
 public:
  static constexpr size_t kPage = 4096;

  // Up to `most` slots of `bytes`, a multiple of kPage. Where addresses are limited (ulimit -v), fewer: a 64th of them.
  PagePool(size_t bytes, size_t most) : bytes_(bytes), most_(most) {}
  // Where slots are still in use, only at the end of the process.
  ~PagePool();
  PagePool(const PagePool&) = delete;

  size_t bytes() const { return bytes_; }
  // Zeroed. Null: all are taken, or there are no addresses or no memory.
  std::byte* take();
  void give(std::byte* slot);
  // Whether `at` lies in the range: two comparisons, without a lock.
  bool contains(const void* at) const {
    const uintptr_t offset = reinterpret_cast<uintptr_t>(at) - begin_.load(std::memory_order_acquire);
    return offset < reserved_.load(std::memory_order_relaxed);
  }

 private:
  bool reserve();
  bool open_more();

  const size_t bytes_, most_;
  static constexpr uintptr_t kNowhere = uintptr_t(1) << 63;  // no address of a process lies behind it

  std::mutex mutex_;
  std::atomic<size_t> reserved_ = 0;         // bytes of the range; before begin_
  std::atomic<uintptr_t> begin_ = kNowhere;  // of the range
  bool refused_ = false;                     // there are no addresses
  size_t opened_ = 0;                        // slots from the range's begin on that may be read and written
  std::vector<uint32_t> free_;               // has room for all that are open
};

// One slot of a pool. One thread at a time.
class DormantPages {
 public:
  // `kept`: the first bytes of the slot, a multiple of 8, are what rest() puts away. What lies behind them is lost in
  // it: it reads as zeros. Takes nothing before take().
  DormantPages(PagePool& pool, size_t kept);
  ~DormantPages();
  DormantPages(const DormantPages&) = delete;

  // The pages, awake; zeroed at first. Null: the pool has none.
  std::byte* take();
  // Null: never taken. Not to be read or written while asleep(): zeros are there, and where addresses are checked
  // (AddressSanitizer) the process ends.
  std::byte* data() const { return pages_; }
  bool contains(const void* at) const {
    return reinterpret_cast<uintptr_t>(at) - reinterpret_cast<uintptr_t>(pages_) < pool_.bytes();
  }

  // Puts the content away. False: it stays, because it would take more than half of its room, or because there is no
  // memory for it; what is not kept is lost all the same. Costs a look at `kept` bytes and a system call.
  bool rest();
  // Makes the pages what they were. Cannot fail.
  void wake() {
    if (asleep()) unpack();
  }
  bool asleep() const { return packed_ != nullptr; }
  // How much of the heap that takes, while asleep.
  size_t packed_bytes() const { return packed_size_; }

 private:
  void unpack();
  void drop_packed();

  PagePool& pool_;
  const size_t kept_;
  std::byte* pages_ = nullptr;
  std::unique_ptr<std::byte[]> packed_;  // null: awake
  size_t packed_size_ = 0;
};

}  // namespace weir::base
