// BufferPool: device memory for what lives as long as a batch. Parts are cut from a few large buffers, so that a batch
// asks the driver for nothing: an allocation there takes from microseconds to milliseconds and waits for the device.
//
// Buffers are made as they are needed, up to `limit` bytes, and stay; where a larger one is needed and there is no
// room, those that nobody uses go first. A part comes back when nothing queued uses it any more: that is the caller's
// to know, from an Event. After a restart of the device the pool begins anew; parts of before are worthless and come
// back without effect. While the device is at fault nothing is given out, so that memory which a lost operation may
// still write to is not used again.
//
// Any thread. Outlives its parts; the device outlives it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "device/arena.h"
#include "device/device.h"

namespace weir::device {

class BufferPool {
 public:
  static constexpr uint64_t kChunk = uint64_t(32) << 20;  // the least that the device is asked for
  static constexpr uint64_t kAlign = 256;

  BufferPool(Device& device, uint64_t limit) : device_(device), limit_(limit) {}
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

 private:
  struct Chunk {
    explicit Chunk(DeviceBuffer b) : buffer(std::move(b)), arena(buffer.size()) {}
    DeviceBuffer buffer;
    Arena arena;
  };

 public:
  class Part {
   public:
    Part() = default;
    // From take() alone, which knows a Chunk.
    Part(BufferPool& pool, Chunk& chunk, std::byte* data, size_t size, uint32_t epoch)
        : pool_(&pool), chunk_(&chunk), data_(data), size_(size), epoch_(epoch) {}
    Part(Part&& o) noexcept { swap(o); }
    Part& operator=(Part&& o) noexcept {
      swap(o);
      return *this;
    }
    ~Part() {
      if (pool_) pool_->give(*chunk_, data_, size_, epoch_);
    }
    explicit operator bool() const { return pool_ != nullptr; }
    std::byte* data() const { return data_; }
    size_t size() const { return size_; }  // as asked for

   private:
    void swap(Part& o) {
      std::swap(pool_, o.pool_), std::swap(chunk_, o.chunk_), std::swap(data_, o.data_);
      std::swap(size_, o.size_), std::swap(epoch_, o.epoch_);
    }
    BufferPool* pool_ = nullptr;
    Chunk* chunk_ = nullptr;  // good in its epoch: a chunk stays while it has parts
    std::byte* data_ = nullptr;
    size_t size_ = 0;
    uint32_t epoch_ = 0;
  };

  // 256-byte aligned. Errors: RESOURCE_EXHAUSTED (the limit, or the device's memory), UNAVAILABLE (fault).
  base::Result<Part> take(size_t bytes);

  Device& device() { return device_; }
  uint64_t limit() const { return limit_; }
  uint64_t used() const;  // in parts that are out
  uint64_t held() const;  // taken from the device

 private:
  void give(Chunk& chunk, const std::byte* data, size_t size, uint32_t epoch);
  Chunk* grow(uint64_t bytes, base::Status& why);
  bool drop_idle();  // whether there were any

  Device& device_;
  const uint64_t limit_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Chunk>> chunks_;  // this and what follows: under mutex_
  uint32_t epoch_ = 0;                          // of the chunks
  uint64_t used_ = 0, held_ = 0;
};

}  // namespace weir::device
