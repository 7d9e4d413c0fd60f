// HostMemory: how much memory of the machine this process can still take, less what was promised and is not used yet.
//
// Large blocks (keys and values) take pages when they are first written to, perhaps days later: what the system calls
// available then was promised long ago. So each such block is reserved here, and what another one may have is half of
// what is left then: there is always something for the one after it. Pages that a block has taken count as used, and
// are found by asking the system which of its pages are there.
//
// Any thread. Reads files of the system: never on a shard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <span>
#include <string>
#include <utility>

namespace weir::base {

// Bytes that can be taken without swapping: the least of what /proc/meminfo calls available and what the limits of this
// process's cgroups (versions 1 and 2, with those above them) leave, where page cache that the system would give up
// counts as free. `root` stands before /proc and /sys. UINT64_MAX: the system does not say.
uint64_t available_memory(const std::string& root = "");

class HostMemory {
 public:
  explicit HostMemory(std::string root = "") : root_(std::move(root)) {}
  HostMemory(const HostMemory&) = delete;

  // A promise of memory to somebody, until this ends. The HostMemory outlives it.
  class Reservation {
   public:
    Reservation() = default;
    Reservation(Reservation&& o) noexcept : memory_(std::exchange(o.memory_, nullptr)), at_(o.at_) {}
    Reservation& operator=(Reservation&& o) noexcept {
      std::swap(memory_, o.memory_), std::swap(at_, o.at_);
      return *this;
    }
    ~Reservation();
    // 0 of one that was moved from.
    uint64_t bytes() const;
    // It was used for this block, which lives as long, and for nothing else.
    void covers(std::span<const std::byte> block);

   private:
    friend class HostMemory;
    struct Promise {
      uint64_t bytes = 0;
      std::span<const std::byte> block;
    };
    Reservation(HostMemory& memory, std::list<Promise>::iterator at) : memory_(&memory), at_(at) {}
    HostMemory* memory_ = nullptr;
    std::list<Promise>::iterator at_;
  };

  // Available now and promised to nobody.
  uint64_t free() const;
  // Half of that, `most` at most.
  Reservation reserve_part(uint64_t most);
  // So much, whether it is free or not.
  Reservation reserve(uint64_t bytes);

 private:
  uint64_t free_locked() const;

  const std::string root_;
  mutable std::mutex mutex_;
  std::list<Reservation::Promise> promises_;  // under mutex_
};

}  // namespace weir::base
