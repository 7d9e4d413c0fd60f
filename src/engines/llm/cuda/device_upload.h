// DeviceUpload: brings arrays to a device, piece by piece through two pinned stages. Keeps the first error.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "device/await.h"
#include "engines/llm/cuda/plan.h"

namespace weir::llm::cuda {

class DeviceUpload {
 public:
  // kCounts: nothing is made or sent, and addresses are of no use; `bytes` is what kSends would take.
  enum class Does : uint8_t { kCounts, kSends };

  explicit DeviceUpload(device::Device& device, Does does = Does::kSends) : device_(device), does_(does) {
    if (does == Does::kCounts) return;
    for (auto& stage : stages_) keep(device.pin(kStage), stage.block), keep(device.event(), stage.sent);
    keep(device.stream(), stream_);
  }

  // After an error copies may still be under way.
  ~DeviceUpload() {
    for (auto& stage : stages_)
      if (stage.used) (void)device::await(device_, stage.sent);
  }

  // `fill(from, n, to)` writes elements [from, from + n). The address on the device, or null after an error.
  template <class T, class Fill>
  T* send(size_t elements, Fill&& fill) {
    if (does_ == Does::kCounts) return bytes += aligned(elements * sizeof(T)), nullptr;
    std::byte* to = room(elements * sizeof(T));
    constexpr size_t kPiece = kStage / sizeof(T);
    for (size_t from = 0; from < elements && status.ok(); from += kPiece) {
      size_t n = std::min(kPiece, elements - from);
      Stage& stage = stages_[next_++ % 2];
      if (stage.used && !check(device::await(device_, stage.sent))) break;
      fill(from, n, reinterpret_cast<T*>(stage.block.data()));
      device::Copy copy{to + from * sizeof(T), stage.block.data(), n * sizeof(T)};
      stage.used = check(device_.copy(stream_, device::Way::kToDevice, {&copy, 1})) &&
                   check(device_.record(stage.sent, stream_));
    }
    return status.ok() ? reinterpret_cast<T*>(to) : nullptr;
  }
  // All has arrived.
  void wait() {
    for (auto& stage : stages_)
      if (stage.used && status.ok()) check(device::await(device_, stage.sent));
  }
  bool check(base::Status s) {
    if (!s.ok() && status.ok()) status = std::move(s);
    return status.ok();
  }

  base::Status status;
  std::vector<device::DeviceBuffer> memory;
  uint64_t bytes = 0;

 private:
  static constexpr size_t kStage = size_t(16) << 20;  // bytes that are filled while as many are on their way
  static constexpr size_t kSlab = size_t(2) << 20;    // small arrays share buffers of this size

  struct Stage {
    device::PinnedBlock block;
    device::Event sent;
    bool used = false;
  };

  template <class T>
  void keep(base::Result<T> result, T& to) {
    if (!result)
      check(result.error());
    else
      to = std::move(*result);
  }
  std::byte* room(size_t n) {
    n = aligned(n);
    if (n > kSlab / 2) return buffer(n);
    if (left_ < n) slab_ = buffer(kSlab), left_ = slab_ ? kSlab : 0;
    if (!slab_) return nullptr;
    left_ -= n;
    return slab_ + (kSlab - left_ - n);
  }
  std::byte* buffer(size_t n) {
    if (!status.ok()) return nullptr;
    auto made = device_.buffer(n);
    if (!made) return check(made.error()), nullptr;
    memory.push_back(std::move(*made));
    bytes += n;
    return memory.back().data();
  }

  device::Device& device_;
  const Does does_;
  device::Stream stream_;
  Stage stages_[2];
  uint32_t next_ = 0;
  std::byte* slab_ = nullptr;
  size_t left_ = 0;
};

}  // namespace weir::llm::cuda
