#include "engines/identity/device_identity.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/units.h"
#include "device/await.h"
#include "device/devices.h"
#include "device/pool.h"

namespace weir::identity {
namespace {

using base::Status;
using device::Copy;
using device::Way;

constexpr size_t kBurst = size_t(4) << 20;  // bytes that go up before the first of them come down
constexpr size_t kAlign = 256;
constexpr uint64_t kOwnPool = uint64_t(64) << 20;

size_t padded(size_t bytes) { return (bytes + kAlign - 1) & ~(kAlign - 1); }

class DeviceIdentity final : public sched::Engine {
 public:
  DeviceIdentity(msg::ModelSpec spec, device::Device& device, base::SlabSource& slabs,
                 std::function<void(Status)> broken)
      : spec_(std::move(spec)), device_(device), epoch_(device.epoch()), slabs_(&slabs), broken_(std::move(broken)) {}

  Status start(uint64_t own_pool);
  const msg::ModelSpec& spec() const override { return spec_; }
  Status step(sched::Batch& batch) override;

 private:
  struct Piece {
    const std::byte* from = nullptr;
    std::byte* on = nullptr;
    std::byte* to = nullptr;
    size_t bytes = 0;
  };
  Status lay_out(sched::Batch& batch);
  Status make_room(size_t bytes);
  base::Result<base::Bytes> pinned(const base::Bytes& bytes);
  Status queue();
  Status finish();

  msg::ModelSpec spec_;
  device::Device& device_;
  const uint32_t epoch_;
  std::unique_ptr<device::SlabPool> own_;  // or null
  base::SlabSource* slabs_;
  std::function<void(Status)> broken_;  // empty once it was called
  device::Stream up_, down_;
  device::Event arrived_, finished_;
  device::DeviceBuffer buffer_;
  std::vector<base::Bytes> held_;  // what the device reads and writes in this step
  std::vector<Piece> pieces_;
  std::vector<Copy> copies_;
};

Status DeviceIdentity::start(uint64_t own_pool) {
  base::Block probe(slabs_->take(1));
  if (!probe || !device_.pinned(probe.data(), probe.capacity())) {
    auto block = device_.pin(own_pool);
    if (!block) return block.error();
    uint64_t size = block->size();
    own_ = std::make_unique<device::SlabPool>(size, device::block_memory(std::move(*block)));
    slabs_ = own_.get();
  }
  auto up = device_.stream(), down = device_.stream();
  auto arrived = device_.event(), finished = device_.event();
  for (const auto& s :
       {up.has_value() ? Status() : up.error(), down.has_value() ? Status() : down.error(),
        arrived.has_value() ? Status() : arrived.error(), finished.has_value() ? Status() : finished.error()})
    if (!s.ok()) return s;
  up_ = std::move(*up), down_ = std::move(*down);
  arrived_ = std::move(*arrived), finished_ = std::move(*finished);
  return {};
}

Status DeviceIdentity::make_room(size_t bytes) {
  if (bytes <= buffer_.size()) return {};
  buffer_ = device::DeviceBuffer();  // the old one first: both might not fit
  auto larger = device_.buffer(std::max(bytes, kBurst));
  if (!larger) return larger.error();
  buffer_ = std::move(*larger);
  return {};
}

base::Result<base::Bytes> DeviceIdentity::pinned(const base::Bytes& bytes) {
  if (device_.pinned(bytes.data(), bytes.size())) return bytes;
  base::Block block(slabs_->take(bytes.size()));
  if (!block) return base::try_again(base::Code::kResourceExhausted, "no pinned memory is free");
  block.append(bytes.data(), bytes.size());
  return block.freeze();
}

// Where every input lies, is to lie on the device, and comes back to.
Status DeviceIdentity::lay_out(sched::Batch& batch) {
  held_.clear(), pieces_.clear();
  batch.outputs = batch.inputs;
  size_t total = 0;
  for (const auto& tensor : batch.inputs) total += padded(tensor.data.size());
  if (auto s = make_room(total); !s.ok()) return s;
  size_t at = 0;
  for (auto& tensor : batch.outputs) {
    size_t bytes = tensor.data.size();
    if (bytes == 0) continue;
    auto from = pinned(tensor.data);
    if (!from) return from.error();
    base::Block to(slabs_->take(bytes));
    if (!to) return base::try_again(base::Code::kResourceExhausted, "no pinned memory is free");
    to.resize(bytes);
    for (size_t done = 0; done < bytes; done += kBurst)
      pieces_.push_back(
          {from->data() + done, buffer_.data() + at + done, to.data() + done, std::min(kBurst, bytes - done)});
    at += padded(bytes);
    held_.push_back(std::move(*from));
    tensor.data = to.freeze();
    held_.push_back(tensor.data);
  }
  return {};
}

// Burst after burst: up, and down behind it. An event is waited for as it stood, so one does for all bursts.
Status DeviceIdentity::queue() {
  for (size_t first = 0; first < pieces_.size();) {
    size_t end = first, bytes = 0;
    while (end < pieces_.size() && (end == first || bytes + pieces_[end].bytes <= kBurst))
      bytes += pieces_[end++].bytes;
    copies_.clear();
    for (size_t i = first; i < end; ++i) copies_.push_back({pieces_[i].on, pieces_[i].from, pieces_[i].bytes});
    if (auto s = device_.copy(up_, Way::kToDevice, copies_); !s.ok()) return s;
    if (auto s = device_.record(arrived_, up_); !s.ok()) return s;
    if (auto s = device_.wait(down_, arrived_); !s.ok()) return s;
    copies_.clear();
    for (size_t i = first; i < end; ++i) copies_.push_back({pieces_[i].to, pieces_[i].on, pieces_[i].bytes});
    if (auto s = device_.copy(down_, Way::kToHost, copies_); !s.ok()) return s;
    first = end;
  }
  return {};
}

// Also after a failure: what was queued before it still runs.
Status DeviceIdentity::finish() {
  for (auto* stream : {&up_, &down_}) {
    if (auto s = device_.record(finished_, *stream); !s.ok()) return s;
    if (auto s = device::await(device_, finished_); !s.ok()) return s;
  }
  return {};
}

Status DeviceIdentity::step(sched::Batch& batch) {
  auto stale = [this] { return device_.epoch() != epoch_; };
  auto status = lay_out(batch);
  if (status.ok()) {
    status = queue();
    auto finished = finish();
    if (!finished.ok() && !stale())
      for (auto& bytes : held_) device_.keep(std::move(bytes));  // the device may still write
    if (status.ok()) status = std::move(finished);
  }
  held_.clear();
  if (!status.ok()) batch.outputs.clear();
  bool lost = !device_.fault().ok() || stale();
  if (lost && broken_) std::exchange(broken_, nullptr)(status.ok() ? device_.fault() : status);
  return status;
}

}  // namespace

base::Result<std::unique_ptr<sched::Engine>> load_on_device(msg::ModelSpec spec, const std::string& name,
                                                            const Place& place) {
  if (!place.devices || !place.slabs) return base::failure(base::Code::kFailedPrecondition, "there are no devices");
  uint64_t own_pool = kOwnPool;
  if (auto p = spec.parameters.find("pinned"); p != spec.parameters.end()) {
    auto size = base::parse_size(p->second);
    if (!size || *size == 0) return base::invalid("parameter 'pinned' is \"" + p->second + "\": a size is expected");
    own_pool = *size;
  }
  auto device = place.devices->find(name);
  if (!device) return device.error();
  if (auto s = (*device)->restart(); !s.ok()) return s;
  auto engine = std::make_unique<DeviceIdentity>(std::move(spec), **device, *place.slabs, place.broken);
  if (auto s = engine->start(own_pool); !s.ok()) return s;
  return std::unique_ptr<sched::Engine>(std::move(engine));
}

}  // namespace weir::identity
