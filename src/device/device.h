// Device: a place beside the host that has memory of its own and works through queues of operations (streams).
//
// Three kinds stand behind this class: CUDA (device/cuda_device.h), the host itself (device/host_device.h), which does
// everything at once, and a fake for tests (device/fake_device.h). Operations are queued and return at once. The host
// learns that they have been done from an Event, which it asks, or from a Done, which is called; nothing here blocks,
// and await() (device/await.h) is for lanes, never for shards.
//
// Faults. An operation that the device cannot survive (an illegal access, a lost device, a hang) makes fault() say so
// from then on, every call fails with the same UNAVAILABLE, and nothing is freed any more. restart() brings an empty
// device back: what was made before belongs to an older epoch and fails with UNAVAILABLE when it is used.
//
// Any thread, but a Stream, Buffer or Event is used by one thread at a time. A Device outlives what it made.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "device/copy.h"

namespace weir::device {

class Device;

// An object of a device, and the epoch in which the device made it (restart() begins the next one).
struct Handle {
  void* raw = nullptr;
  uint32_t epoch = 0;
};

// Owns one thing of a device; the tag says what it is.
enum class Kind : uint8_t { kBuffer, kStream, kEvent, kGraph };
template <Kind kind>
class Owned {
 public:
  Owned() = default;
  Owned(Device& device, Handle handle, size_t size) : device_(&device), handle_(handle), size_(size) {}
  Owned(Owned&& o) noexcept
      : device_(std::exchange(o.device_, nullptr)), handle_(o.handle_), size_(std::exchange(o.size_, 0)) {}
  Owned& operator=(Owned&& o) noexcept {
    std::swap(device_, o.device_), std::swap(handle_, o.handle_), std::swap(size_, o.size_);
    return *this;
  }
  ~Owned();

  explicit operator bool() const { return device_ != nullptr; }
  const Handle& handle() const { return handle_; }
  // Only of a buffer: its address on the device, 256-byte aligned, and its size in bytes.
  std::byte* data() const requires(kind == Kind::kBuffer) { return static_cast<std::byte*>(handle_.raw); }
  size_t size() const requires(kind == Kind::kBuffer) { return size_; }

 private:
  Device* device_ = nullptr;
  Handle handle_;
  size_t size_ = 0;
};
using DeviceBuffer = Owned<Kind::kBuffer>;
using Stream = Owned<Kind::kStream>;
using Event = Owned<Kind::kEvent>;
using Graph = Owned<Kind::kGraph>;  // operations that are queued again in one call

// Host memory that the device reads and writes by itself, 2 MiB aligned. It stays where it is over a restart.
class PinnedBlock {
 public:
  PinnedBlock() = default;
  PinnedBlock(Device& device, std::byte* data, size_t size) : device_(&device), data_(data), size_(size) {}
  PinnedBlock(PinnedBlock&& o) noexcept
      : device_(std::exchange(o.device_, nullptr)), data_(o.data_), size_(std::exchange(o.size_, 0)) {}
  PinnedBlock& operator=(PinnedBlock&& o) noexcept {
    std::swap(device_, o.device_), std::swap(data_, o.data_), std::swap(size_, o.size_);
    return *this;
  }
  ~PinnedBlock();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Called on a thread of the device's own when a stream has come this far; must return soon and call nothing of the
// device. Lent: it is not called any more once the device is at fault.
class Done {
 public:
  virtual void done() noexcept = 0;

 protected:
  ~Done() = default;
};

class Device {
 public:
  struct Info {
    std::string id;    // "cuda:0", "host", "fake"
    std::string name;  // as its maker calls it
    std::string bus_id;
    uint64_t memory = 0;            // bytes
    uint32_t major = 0, minor = 0;  // compute capability
    uint32_t multiprocessors = 0;
    int32_t index = -1;  // of a CUDA device
  };
  // Kernels. A CUDA device calls it at once with the stream as the runtime knows it: it launches, and says the launch's
  // cudaError_t. A host version calls it in the stream's turn with null: it does the work, and says 0 or what is wrong.
  using Work = std::function<int32_t(void* stream)>;
  enum class Priority : uint8_t { kNormal, kUrgent };
  enum class Progress : uint8_t { kPending, kDone };
  enum class Cure : uint8_t { kRestart, kNone };
  struct Memory {
    uint64_t free = 0, total = 0;  // bytes
  };
  struct Copied {
    uint64_t to_device = 0, to_host = 0, copies = 0;  // bytes, bytes, operations
  };

  virtual ~Device();
  Device(const Device&) = delete;

  const Info& info() const { return info_; }

  // Errors of all that follows: UNAVAILABLE (fault, or of an older epoch), RESOURCE_EXHAUSTED (memory).
  base::Result<DeviceBuffer> buffer(size_t bytes);
  // Free is what buffers can still take now, less what other processes have; UINT64_MAX where nobody knows.
  base::Result<Memory> memory();
  base::Result<Stream> stream(Priority priority = Priority::kNormal);
  base::Result<Event> event();
  // Rounded up to whole huge pages.
  base::Result<PinnedBlock> pin(size_t bytes);
  // All of [data, data + bytes) may be copied from and to without the driver's staging it.
  virtual bool pinned(const void* data, size_t bytes) const;

  // In the order of the stream. The host's side is pinned, and stays untouched until an Event after it is done.
  base::Status copy(const Stream& stream, Way way, std::span<const Copy> copies);
  base::Status record(const Event& event, const Stream& stream);
  // Work queued on `stream` from now on waits for the work that `event` recorded last.
  base::Status wait(const Stream& stream, const Event& event);
  base::Result<Progress> progress(const Event& event);
  base::Status then(const Stream& stream, Done& done);
  // Work in the order of the stream. Errors of work that a host version does later make it break.
  base::Status run(const Stream& stream, Work work);

  // The work that run() and copy() queue between the two becomes a graph instead of being done. One stream at a
  // time on a thread; captured() also ends a capture in which something failed. Memory that a graph names outlives it.
  base::Status capture(const Stream& stream);
  base::Result<Graph> captured(const Stream& stream);
  base::Status launch(const Stream& stream, const Graph& graph);

  // OK, or why nothing works any more. One relaxed load while all is well.
  base::Status fault() const;
  uint32_t epoch() const { return epoch_.load(std::memory_order_acquire); }
  // Somebody found out that the device is lost. The first one's words stay.
  void fail(base::Status status, Cure cure);
  // `told` is called once for each fault, on the thread that found it; it must return at once and call nothing of the
  // device. Set before the device is used.
  void on_fault(std::function<void(const base::Status&)> told) { told_ = std::move(told); }
  // Memory that the device may still read or write, though nobody waits for it any more: kept until the restart, or for
  // good where there is none.
  void keep(base::Bytes bytes);
  // Frees everything, starts the device anew. OK when there was no fault. UNAVAILABLE when it cannot be done: then only
  // a new process helps. May take seconds: never on a shard.
  base::Status restart();

  Copied copied() const;

 protected:
  explicit Device(Info info) : info_(std::move(info)) {}

  // Called with the gate held, in the present epoch, without a fault. They report what cannot be survived by fail().
  virtual base::Result<void*> do_make(Kind kind, size_t bytes, Priority priority) = 0;
  virtual void do_free(Kind kind, void* raw) = 0;
  virtual base::Result<Memory> do_memory() = 0;
  virtual base::Status do_copy(void* stream, Way way, std::span<const Copy> copies) = 0;
  virtual base::Status do_record(void* event, void* stream) = 0;
  virtual base::Status do_wait(void* stream, void* event) = 0;
  virtual base::Result<Progress> do_progress(void* event) = 0;
  virtual base::Status do_then(void* stream, Done& done) = 0;
  virtual base::Status do_run(void* stream, Work work) = 0;
  virtual base::Status do_capture(void* stream) = 0;
  virtual base::Result<void*> do_captured(void* stream) = 0;
  virtual base::Status do_launch(void* stream, void* graph) = 0;
  // Makes mapped host memory known to the device, and forgets it.
  virtual base::Status do_pin(std::byte* data, size_t bytes) = 0;
  virtual void do_unpin(std::byte* data, size_t bytes) = 0;
  // Drops all that was made; pinned blocks are pinned again. Nobody else is inside.
  virtual base::Status do_restart() = 0;

 private:
  template <Kind kind>
  friend class Owned;
  friend class PinnedBlock;

  template <class Use>
  base::Status use(std::initializer_list<uint32_t> epochs, Use&& use);
  base::Status usable(uint32_t epoch) const;
  void free(Kind kind, const Handle& handle);
  void unpin(std::byte* data, size_t bytes);

  const Info info_;
  std::function<void(const base::Status&)> told_;
  mutable std::shared_mutex gate_;  // shared by operations, held alone by restart()
  std::atomic<uint32_t> epoch_{1};
  std::atomic<bool> faulty_{false};
  mutable std::mutex fault_mutex_;
  base::Status fault_;       // under fault_mutex_
  Cure cure_ = Cure::kNone;  // under fault_mutex_
  std::atomic<uint64_t> to_device_{0}, to_host_{0}, copies_{0};
  std::vector<base::Bytes> kept_;  // under fault_mutex_
};

template <Kind kind>
Owned<kind>::~Owned() {
  if (device_) device_->free(kind, handle_);
}

}  // namespace weir::device
