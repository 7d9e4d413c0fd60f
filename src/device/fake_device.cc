#include "device/fake_device.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/check.h"

namespace weir::device {
namespace {

using base::Status;

constexpr std::align_val_t kBufferAlign{256};

// Whether [data, data + bytes) lies in one of the ranges.
bool within(const std::map<std::byte*, size_t>& ranges, const void* data, size_t bytes) {
  auto* at = static_cast<std::byte*>(const_cast<void*>(data));
  auto range = ranges.upper_bound(at);
  if (range == ranges.begin()) return false;
  --range;
  size_t from = size_t(at - range->first);
  return from <= range->second && bytes <= range->second - from;
}

Device::Info fake_info(uint64_t memory, size_t index) {
  Device::Info info;
  info.id = index == 0 ? "fake" : "fake:" + std::to_string(index), info.name = "a fake for tests", info.memory = memory;
  return info;
}

}  // namespace

FakeDevice::FakeDevice(Drive drive, uint64_t memory, size_t index)
    : Device(fake_info(memory, index)), drive_(drive), memory_(memory) {
  if (drive == Drive::kThread) thread_ = std::thread([this] { work_off(); });
}

FakeDevice::~FakeDevice() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  for (auto& [data, bytes] : buffers_) ::operator delete(static_cast<void*>(data), kBufferAlign);
}

base::Result<void*> FakeDevice::do_make(Kind kind, size_t bytes, Priority) {
  std::lock_guard lock(mutex_);
  if (kind == Kind::kStream) {
    auto stream = std::make_unique<Queue>();
    auto* raw = stream.get();
    streams_.emplace(raw, std::move(stream));
    return static_cast<void*>(raw);
  }
  if (kind == Kind::kEvent) {
    auto event = std::make_unique<Event>();
    auto* raw = event.get();
    events_.emplace(raw, std::move(event));
    return static_cast<void*>(raw);
  }
  if (no_room_ > 0 || bytes > memory_ - used_) {
    no_room_ -= no_room_ > 0;
    return base::failure(base::Code::kResourceExhausted, "the fake device has no memory left");
  }
  void* raw = ::operator new(std::max<size_t>(bytes, 1), kBufferAlign);
  buffers_.emplace(static_cast<std::byte*>(raw), bytes);
  used_ += bytes;
  return raw;
}

void FakeDevice::do_free(Kind kind, void* raw) {
  std::unique_lock lock(mutex_);
  if (kind == Kind::kEvent) {
    events_.erase(static_cast<Event*>(raw));
  } else if (kind == Kind::kGraph) {
    graphs_.erase(static_cast<Recording*>(raw));  // what was launched of it goes on
  } else if (kind == Kind::kStream) {
    auto* stream = static_cast<Queue*>(raw);
    changed_.wait(lock, [&] { return !stream->busy; });
    streams_.erase(stream);
  } else {
    auto found = buffers_.find(static_cast<std::byte*>(raw));
    base::check(found != buffers_.end(), "a buffer of the fake device is freed once");
    used_ -= found->second;
    buffers_.erase(found);
    ::operator delete(raw, kBufferAlign);
  }
}

base::Result<Device::Memory> FakeDevice::do_memory() {
  std::lock_guard lock(mutex_);
  return Memory{memory_ - used_, memory_};
}

bool FakeDevice::on_device(const void* data, size_t bytes) const { return within(buffers_, data, bytes); }

bool FakeDevice::pinned(const void* data, size_t bytes) const {
  std::lock_guard lock(mutex_);
  return within(pins_, data, bytes);
}

Status FakeDevice::broken(std::string why) {
  auto status = base::failure(base::Code::kUnavailable, "fake: " + std::move(why));
  fail(status, Cure::kRestart);
  return status;
}

Status FakeDevice::push(void* stream, Op op) {
  {
    std::lock_guard lock(mutex_);
    if (left_ == 0) return broken("the device broke");
    if (left_ > 0) --left_;
    static_cast<Queue*>(stream)->ops.push_back(std::move(op));
  }
  changed_.notify_all();
  return {};
}

Status FakeDevice::do_copy(void* stream, Way way, std::span<const Copy> copies) {
  {
    std::lock_guard lock(mutex_);
    for (const auto& c : copies) {
      bool to_good = way == Way::kToHost ? within(pins_, c.to, c.bytes) : on_device(c.to, c.bytes);
      bool from_good = way == Way::kToDevice ? within(pins_, c.from, c.bytes) : on_device(c.from, c.bytes);
      if (!to_good || !from_good) return broken("a copy of memory that is neither the device's nor pinned");
    }
  }
  return push(stream, Recording::Op{{copies.begin(), copies.end()}, {}});
}

Status FakeDevice::push(void* stream, Recording::Op work) {
  if (auto& recording = static_cast<Queue*>(stream)->recording) {  // the stream is one thread's
    recording->ops.push_back(std::move(work));
    return {};
  }
  Op op;
  op.work.ops.push_back(std::move(work));
  return push(stream, std::move(op));
}

Status FakeDevice::do_run(void* stream, Work work) { return push(stream, Recording::Op{{}, std::move(work)}); }

Status FakeDevice::do_capture(void* stream) {
  static_cast<Queue*>(stream)->recording = std::make_shared<Recording>();
  return {};
}

base::Result<void*> FakeDevice::do_captured(void* stream) {
  auto recording = std::move(static_cast<Queue*>(stream)->recording);
  std::lock_guard lock(mutex_);
  auto* raw = recording.get();
  graphs_.emplace(raw, std::move(recording));
  return static_cast<void*>(raw);
}

Status FakeDevice::do_launch(void* stream, void* graph) {
  Op op;
  {
    std::lock_guard lock(mutex_);
    op.graph = graphs_.at(static_cast<Recording*>(graph));
  }
  return push(stream, std::move(op));
}

Status FakeDevice::do_record(void* event, void* stream) {
  Op op;
  op.what = Op::What::kRecord;
  {
    std::lock_guard lock(mutex_);
    op.mark = static_cast<Event*>(event)->mark;
    op.turn = ++op.mark->recorded;
  }
  return push(stream, std::move(op));
}

Status FakeDevice::do_wait(void* stream, void* event) {
  Op op;
  op.what = Op::What::kWait;
  {
    std::lock_guard lock(mutex_);
    op.mark = static_cast<Event*>(event)->mark;
    op.turn = op.mark->recorded;
  }
  return push(stream, std::move(op));
}

Status FakeDevice::do_then(void* stream, Done& done) {
  Op op;
  op.what = Op::What::kDone, op.done = &done;
  return push(stream, std::move(op));
}

base::Result<Device::Progress> FakeDevice::do_progress(void* event) {
  if (drive_ == Drive::kWhenAsked) step();
  std::lock_guard lock(mutex_);
  const auto& mark = *static_cast<Event*>(event)->mark;
  return mark.reached == mark.recorded ? Progress::kDone : Progress::kPending;
}

// One operation at the head of some stream; false when none may run. The copying is done without the lock.
bool FakeDevice::do_one(std::unique_lock<std::mutex>& lock) {
  if (hangs_ || !fault().ok()) return false;
  for (auto& [raw, stream] : streams_) {
    if (stream->busy || stream->ops.empty()) continue;
    auto& head = stream->ops.front();
    if (head.what == Op::What::kWait && head.mark->reached < head.turn) continue;
    Op op = std::move(head);
    auto* queue = raw;
    queue->ops.pop_front();
    queue->busy = true;
    lock.unlock();
    int32_t code = op.graph ? op.graph->run() : op.work.run();
    if (op.done) op.done->done();
    lock.lock();
    if (code != 0) broken("work failed with code " + std::to_string(code));
    if (op.what == Op::What::kRecord) op.mark->reached = std::max(op.mark->reached, op.turn);
    queue->busy = false;
    changed_.notify_all();
    return true;
  }
  return false;
}

bool FakeDevice::step() {
  std::unique_lock lock(mutex_);
  return do_one(lock);
}

void FakeDevice::work_off() {
  std::unique_lock lock(mutex_);
  while (!ending_)
    if (!do_one(lock)) changed_.wait(lock);
}

Status FakeDevice::do_pin(std::byte* data, size_t bytes) {
  std::lock_guard lock(mutex_);
  if (no_room_ > 0) {
    --no_room_;
    return base::failure(base::Code::kResourceExhausted, "the fake device pins no more");
  }
  pins_.emplace(data, bytes);
  return {};
}

void FakeDevice::do_unpin(std::byte* data, size_t) {
  std::lock_guard lock(mutex_);
  pins_.erase(data);
}

Status FakeDevice::do_restart() {
  std::unique_lock lock(mutex_);
  if (refuses_) return base::failure(base::Code::kUnavailable, "fake: the device does not come back");
  changed_.wait(lock, [&] {
    return std::none_of(streams_.begin(), streams_.end(), [](const auto& s) { return s.second->busy; });
  });
  streams_.clear();
  events_.clear();
  graphs_.clear();
  for (auto& [data, bytes] : buffers_) ::operator delete(static_cast<void*>(data), kBufferAlign);
  buffers_.clear();
  used_ = 0;
  left_ = -1;
  hangs_ = false;
  return {};
}

size_t FakeDevice::queued() const {
  std::lock_guard lock(mutex_);
  size_t sum = 0;
  for (const auto& [raw, stream] : streams_) sum += stream->ops.size();
  return sum;
}

uint64_t FakeDevice::used() const {
  std::lock_guard lock(mutex_);
  return used_;
}

void FakeDevice::run_out(uint32_t buffers) {
  std::lock_guard lock(mutex_);
  no_room_ = buffers;
}

void FakeDevice::break_after(uint32_t operations) {
  std::lock_guard lock(mutex_);
  left_ = operations;
}

void FakeDevice::have(Trouble trouble) {
  std::lock_guard lock(mutex_);
  (trouble == Trouble::kHang ? hangs_ : refuses_) = true;
}

}  // namespace weir::device
