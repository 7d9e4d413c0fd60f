#include "device/device.h"

#include "device/size_class.h"
#include "device/slab_memory.h"

namespace weir::device {

using base::Result;
using base::Status;

PinnedBlock::~PinnedBlock() {
  if (device_) device_->unpin(data_, size_);
}

// The blocks that were kept are freed with this: there is nobody left who could unpin them.
Device::~Device() { faulty_.store(true); }

Status Device::fault() const {
  if (!faulty_.load(std::memory_order_acquire)) return {};
  std::lock_guard lock(fault_mutex_);
  return fault_;
}

void Device::fail(Status status, Cure cure) {
  {
    std::lock_guard lock(fault_mutex_);
    // A hang that comes on top of an error makes it incurable.
    const bool first = !faulty_.load(std::memory_order_relaxed);
    if (cure == Cure::kNone || first) cure_ = cure;
    if (!first) return;
    fault_ = status;
    faulty_.store(true, std::memory_order_release);
  }
  if (told_) told_(status);
}

Status Device::usable(uint32_t epoch) const {
  if (epoch != epoch_.load(std::memory_order_relaxed))
    return base::try_again(base::Code::kUnavailable, info_.id + " was restarted; the model is loaded anew");
  return fault();
}

template <class Use>
Status Device::use(std::initializer_list<uint32_t> epochs, Use&& use) {
  std::shared_lock lock(gate_);
  for (uint32_t epoch : epochs)
    if (auto s = usable(epoch); !s.ok()) return s;
  return use();
}

namespace {

template <class T, class Make>
Result<T> made(Status status, Make&& make) {
  if (!status.ok()) return status;
  return make();
}

}  // namespace

Result<DeviceBuffer> Device::buffer(size_t bytes) {
  Handle handle;
  auto s = use({epoch()}, [&]() -> Status {
    auto raw = do_make(Kind::kBuffer, bytes, Priority::kNormal);
    if (!raw) return raw.error();
    handle = {*raw, epoch()};
    return {};
  });
  return made<DeviceBuffer>(std::move(s), [&] { return DeviceBuffer(*this, handle, bytes); });
}

Result<Device::Memory> Device::memory() {
  Memory memory;
  auto s = use({epoch()}, [&]() -> Status {
    auto now = do_memory();
    if (!now) return now.error();
    memory = *now;
    return {};
  });
  return made<Memory>(std::move(s), [&] { return memory; });
}

Result<Stream> Device::stream(Priority priority) {
  Handle handle;
  auto s = use({epoch()}, [&]() -> Status {
    auto raw = do_make(Kind::kStream, 0, priority);
    if (!raw) return raw.error();
    handle = {*raw, epoch()};
    return {};
  });
  return made<Stream>(std::move(s), [&] { return Stream(*this, handle, 0); });
}

Result<Event> Device::event() {
  Handle handle;
  auto s = use({epoch()}, [&]() -> Status {
    auto raw = do_make(Kind::kEvent, 0, Priority::kNormal);
    if (!raw) return raw.error();
    handle = {*raw, epoch()};
    return {};
  });
  return made<Event>(std::move(s), [&] { return Event(*this, handle, 0); });
}

Result<PinnedBlock> Device::pin(size_t bytes) {
  bytes = (bytes + kHugePage - 1) & ~(kHugePage - 1);
  if (bytes == 0 || bytes > kLargestSlab) return base::invalid("a pinned block has from 1 byte to 1 TiB");
  auto* data = map_huge(bytes);
  if (!data) return base::failure(base::Code::kResourceExhausted, "the system has no memory to pin");
  if (auto s = use({epoch()}, [&] { return do_pin(data, bytes); }); !s.ok()) {
    unmap_huge(data, bytes);
    return s;
  }
  return PinnedBlock(*this, data, bytes);
}

bool Device::pinned(const void*, size_t) const { return true; }

Status Device::copy(const Stream& stream, Way way, std::span<const Copy> copies) {
  if (copies.empty()) return {};
  auto s = use({stream.handle().epoch}, [&] { return do_copy(stream.handle().raw, way, copies); });
  if (!s.ok()) return s;
  uint64_t bytes = 0;
  for (const auto& c : copies) bytes += c.bytes;
  if (way == Way::kToDevice) to_device_.fetch_add(bytes, std::memory_order_relaxed);
  if (way == Way::kToHost) to_host_.fetch_add(bytes, std::memory_order_relaxed);
  copies_.fetch_add(copies.size(), std::memory_order_relaxed);
  return {};
}

Status Device::record(const Event& event, const Stream& stream) {
  return use({event.handle().epoch, stream.handle().epoch},
             [&] { return do_record(event.handle().raw, stream.handle().raw); });
}

Status Device::wait(const Stream& stream, const Event& event) {
  return use({event.handle().epoch, stream.handle().epoch},
             [&] { return do_wait(stream.handle().raw, event.handle().raw); });
}

Result<Device::Progress> Device::progress(const Event& event) {
  Progress now = Progress::kPending;
  auto s = use({event.handle().epoch}, [&]() -> Status {
    auto progress = do_progress(event.handle().raw);
    if (!progress) return progress.error();
    now = *progress;
    return {};
  });
  if (!s.ok()) return s;
  return now;
}

Status Device::then(const Stream& stream, Done& done) {
  return use({stream.handle().epoch}, [&] { return do_then(stream.handle().raw, done); });
}

Status Device::run(const Stream& stream, Work work) {
  return use({stream.handle().epoch}, [&] { return do_run(stream.handle().raw, std::move(work)); });
}

Status Device::capture(const Stream& stream) {
  return use({stream.handle().epoch}, [&] { return do_capture(stream.handle().raw); });
}

Result<Graph> Device::captured(const Stream& stream) {
  Handle handle;
  auto s = use({stream.handle().epoch}, [&]() -> Status {
    auto raw = do_captured(stream.handle().raw);
    if (!raw) return raw.error();
    handle = {*raw, stream.handle().epoch};
    return {};
  });
  return made<Graph>(std::move(s), [&] { return Graph(*this, handle, 0); });
}

Status Device::launch(const Stream& stream, const Graph& graph) {
  return use({stream.handle().epoch, graph.handle().epoch},
             [&] { return do_launch(stream.handle().raw, graph.handle().raw); });
}

void Device::keep(base::Bytes bytes) {
  std::lock_guard lock(fault_mutex_);
  kept_.push_back(std::move(bytes));
}

Status Device::restart() {
  std::vector<base::Bytes> kept;  // dropped without the locks: the last slab of a pool unpins its block
  std::unique_lock lock(gate_);
  if (fault().ok()) return {};
  {
    std::lock_guard fault_lock(fault_mutex_);
    if (cure_ == Cure::kNone)
      return base::failure(base::Code::kUnavailable, fault_.text + "; it takes a restart of the server");
  }
  if (auto s = do_restart(); !s.ok()) {
    fail(s, Cure::kNone);
    return s;
  }
  epoch_.fetch_add(1, std::memory_order_release);
  std::lock_guard fault_lock(fault_mutex_);
  fault_ = {};
  kept.swap(kept_);
  faulty_.store(false, std::memory_order_release);
  return {};
}

// Memory on a failed device is freed by its restart; to free it one by one could block for ever.
void Device::free(Kind kind, const Handle& handle) {
  std::shared_lock lock(gate_);
  if (usable(handle.epoch).ok()) do_free(kind, handle.raw);
}

// A device at fault may still write into the block: it stays mapped then.
void Device::unpin(std::byte* data, size_t bytes) {
  std::shared_lock lock(gate_);
  if (!fault().ok()) return;
  do_unpin(data, bytes);
  unmap_huge(data, bytes);
}

Device::Copied Device::copied() const {
  return {to_device_.load(std::memory_order_relaxed), to_host_.load(std::memory_order_relaxed),
          copies_.load(std::memory_order_relaxed)};
}

}  // namespace weir::device
