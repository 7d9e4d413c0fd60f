#include "engines/identity/device_identity.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/units.h"
#include "device/devices.h"
#include "sched/device_engine.h"

namespace weir::identity {
namespace {

using base::Status;
using device::Copy;
using device::Way;

constexpr size_t kBurst = size_t(4) << 20;  // bytes that are copied to the device before the first are copied back
constexpr uint32_t kMostInFlight = 8;

class DeviceIdentity final : public sched::DeviceEngine {
 public:
  enum class Compute : uint8_t { kNone, kCopy };
  DeviceIdentity(msg::ModelSpec spec, Compute compute, Deps deps)
      : DeviceEngine(std::move(deps)), spec_(std::move(spec)), compute_(compute) {}

  const msg::ModelSpec& spec() const override { return spec_; }

 private:
  struct CopyRange {
    const std::byte* from;
    std::byte *on, *to;
    size_t bytes;
  };
  bool in_place() const override { return compute_ == Compute::kNone; }
  Status plan(sched::Batch& batch, std::vector<size_t>& bytes) override;
  Status compute(const sched::Batch& batch, const device::Stream& run, std::span<const Transfer> in,
                 std::span<const Transfer> out) override;
  Status queue(const sched::Batch& batch, DeviceBatch& batch_in_flight) override;
  Status burst(size_t first, size_t end, DeviceBatch& batch_in_flight);

  const msg::ModelSpec spec_;
  const Compute compute_;
  std::vector<CopyRange> pieces_;
  std::vector<Copy> copies_;
};

Status DeviceIdentity::plan(sched::Batch& batch, std::vector<size_t>& bytes) {
  batch.outputs = batch.inputs;
  name_outputs(batch.outputs, spec_);
  for (size_t i = 0; i < batch.inputs.size(); ++i) bytes.push_back(batch.input_bytes(i));
  return {};
}

Status DeviceIdentity::compute(const sched::Batch&, const device::Stream& run, std::span<const Transfer> in,
                               std::span<const Transfer> out) {
  copies_.clear();
  for (size_t i = 0; i < in.size(); ++i)
    if (in[i].bytes > 0) copies_.push_back({out[i].device, in[i].device, in[i].bytes});
  return device().copy(run, Way::kOnDevice, copies_);
}

// Where nothing is computed, the batch is copied in bursts, each back as soon as it is on the device, so that even one
// large batch uses both directions of the bus at once.
Status DeviceIdentity::queue(const sched::Batch& batch, DeviceBatch& batch_in_flight) {
  if (!in_place()) return DeviceEngine::queue(batch, batch_in_flight);
  pieces_.clear();
  size_t input = 0;
  for (const Copy& copy : batch_in_flight.up) {
    auto begin = [&] { return size_t(static_cast<std::byte*>(copy.to) - batch_in_flight.in[input].device); };
    while (batch_in_flight.in[input].bytes == 0 || begin() >= batch_in_flight.in[input].bytes) ++input;
    for (size_t at = 0; at < copy.bytes; at += kBurst)
      pieces_.push_back({static_cast<const std::byte*>(copy.from) + at, static_cast<std::byte*>(copy.to) + at,
                         batch_in_flight.out[input].host + begin() + at, std::min(kBurst, copy.bytes - at)});
  }
  for (size_t first = 0; first < pieces_.size();) {
    size_t end = first, bytes = 0;
    while (end < pieces_.size() && (end == first || bytes + pieces_[end].bytes <= kBurst))
      bytes += pieces_[end++].bytes;
    if (auto s = burst(first, end, batch_in_flight); !s.ok()) return s;
    first = end;
  }
  if (auto s = device().record(batch_in_flight.arrived, up()); !s.ok()) return s;
  return device().record(batch_in_flight.computed, up());
}

// wait() refers to the event as it was last recorded, so one event serves all bursts.
Status DeviceIdentity::burst(size_t first, size_t end, DeviceBatch& batch_in_flight) {
  copies_.clear();
  for (size_t i = first; i < end; ++i) copies_.push_back({pieces_[i].on, pieces_[i].from, pieces_[i].bytes});
  if (auto s = device().copy(up(), Way::kToDevice, copies_); !s.ok()) return s;
  if (auto s = device().record(batch_in_flight.arrived, up()); !s.ok()) return s;
  if (auto s = device().wait(down(), batch_in_flight.arrived); !s.ok()) return s;
  copies_.clear();
  for (size_t i = first; i < end; ++i) copies_.push_back({pieces_[i].to, pieces_[i].on, pieces_[i].bytes});
  return device().copy(down(), Way::kToHost, copies_);
}

// Returns a parameter's value; `otherwise` when it is not there.
std::string word(const msg::ModelSpec& spec, const char* name, std::string otherwise) {
  auto p = spec.parameters.find(name);
  return p == spec.parameters.end() ? std::move(otherwise) : p->second;
}

Status wrong(const char* name, const std::string& value, const char* expected) {
  return base::invalid(std::string("parameter '") + name + "' is \"" + value + "\": " + expected + " is expected");
}

}  // namespace

base::Result<std::unique_ptr<sched::Engine>> load_on_device(msg::ModelSpec spec, const std::string& name,
                                                            const Place& place) {
  if (!place.devices || !place.slabs) return base::failure(base::Code::kFailedPrecondition, "there are no devices");
  sched::DeviceEngine::Deps deps;
  std::string pinned = word(spec, "pinned", "64MiB"), in_flight = word(spec, "in_flight", "2"),
              compute = word(spec, "compute", "none");
  auto size = base::parse_size(pinned);
  if (!size || *size == 0) return wrong("pinned", pinned, "a size");
  auto depth = base::parse_count(in_flight, kMostInFlight);
  if (!depth || *depth == 0) return wrong("in_flight", in_flight, "a whole number from 1 to 8");
  if (compute != "none" && compute != "copy") return wrong("compute", compute, "none or copy");
  auto device = place.devices->find(name);
  if (!device) return device.error();
  if (auto s = (*device)->restart(); !s.ok()) return s;
  deps.device = *device, deps.memory = &place.devices->memory(**device), deps.slabs = place.slabs;
  deps.pinned = *size, deps.depth = uint32_t(*depth), deps.broken = place.broken;
  if (place.patience.count() > 0) deps.patience = place.patience;
  auto engine = std::make_unique<DeviceIdentity>(
      std::move(spec), compute == "copy" ? DeviceIdentity::Compute::kCopy : DeviceIdentity::Compute::kNone,
      std::move(deps));
  if (auto s = engine->start(); !s.ok()) return s;
  return std::unique_ptr<sched::Engine>(std::move(engine));
}

}  // namespace weir::identity
