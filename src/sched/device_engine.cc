#include "sched/device_engine.h"

#include <utility>

#include "base/check.h"
#include "base/clock.h"

namespace weir::sched {
namespace {

using base::Code;
using base::Status;
using device::Copy;
using device::Way;
using Progress = device::Device::Progress;

template <class T>
Status take(base::Result<T> made, T& into) {
  if (!made) return made.error();
  into = std::move(*made);
  return {};
}

// Runs steps until one fails.
template <class... Step>
Status all(Step&&... steps) {
  Status status;
  (void)((status = steps(), status.ok()) && ...);
  return status;
}

}  // namespace

DeviceEngine::DeviceEngine(Deps deps)
    : deps_(std::move(deps)), epoch_(deps_.device->epoch()), batches_(std::max<uint32_t>(deps_.depth, 1)) {}

Status DeviceEngine::start() {
  auto& device = *deps_.device;
  base::Block probe(deps_.slabs->take(1));
  if (!probe || !device.pinned(probe.data(), probe.capacity())) {
    auto block = device.pin(deps_.pinned);
    if (!block) return base::failure(block.error().code, "no pinned memory: " + block.error().text);
    uint64_t size = block->size();
    own_ = std::make_unique<device::SlabPool>(size, device::block_memory(std::move(*block)));
    deps_.slabs = own_.get();
  }
  auto status = all([&] { return take(device.stream(), up_); }, [&] { return take(device.stream(), run_); },
                    [&] { return take(device.stream(), down_); });
  for (auto& f : batches_)
    if (status.ok())
      status = all([&] { return take(device.event(), f.arrived); }, [&] { return take(device.event(), f.computed); },
                   [&] { return take(device.event(), f.landed); });
  return status;
}

base::Result<base::Bytes> DeviceEngine::pinned(const base::Bytes& bytes) {
  if (deps_.device->pinned(bytes.data(), bytes.size())) return bytes;
  base::Block block(deps_.slabs->take(bytes.size()));
  if (!block) return base::try_again(Code::kResourceExhausted, "no pinned memory is free");
  block.append(bytes.data(), bytes.size());
  return block.freeze();
}

// A copy to the device costs about as much time as gathering so many bytes.
bool DeviceEngine::takes_rows(const msg::Tensor& rows) const {
  constexpr size_t kLeast = size_t(32) << 10;
  return rows.data.size() >= kLeast && deps_.device->pinned(rows.data.data(), rows.data.size());
}

Status DeviceEngine::send_up(const base::Bytes& from, std::byte* to, InFlight& batch_in_flight) {
  auto there = pinned(from);
  if (!there) return there.error();
  batch_in_flight.up.push_back({to, there->data(), there->size()});
  batch_in_flight.held.push_back(std::move(*there));
  return {};
}

Status DeviceEngine::lay_out_input(const Batch& batch, size_t i, std::byte* at, InFlight& batch_in_flight) {
  const auto& data = batch.inputs[i].data;
  if (!data.empty()) {
    auto status = send_up(data, at, batch_in_flight);
    if (status.ok())
      batch_in_flight.in[i] = {const_cast<std::byte*>(batch_in_flight.held.back().data()), at, data.size()};
    return status;  // what lies there is only read
  }
  batch_in_flight.in[i] = {nullptr, at, batch.apart[i].bytes};
  for (const auto* rows : batch.apart[i].rows) {
    if (auto s = send_up(rows->data, at, batch_in_flight); !s.ok()) return s;
    at += rows->data.size();
  }
  return {};
}

// Where every tensor lies, here and there.
Status DeviceEngine::lay_out(Batch& batch, InFlight& batch_in_flight) {
  sizes_.clear();
  if (auto s = plan(batch, sizes_); !s.ok()) return s;
  base::check(sizes_.size() == batch.outputs.size(), "a plan has a size for each output");
  size_t total = 0;
  for (size_t i = 0; i < batch.inputs.size(); ++i) total += padded(batch.input_bytes(i));
  for (size_t bytes : sizes_) total += in_place() ? 0 : padded(bytes);
  auto* at = total > 0 ? fixed_memory(batch, total) : nullptr;
  if (total > 0 && !at)
    if (auto s = take(deps_.memory->take(total), batch_in_flight.memory); !s.ok()) return s;
  batch_in_flight.in.assign(batch.inputs.size(), {}), batch_in_flight.out.assign(sizes_.size(), {});
  batch_in_flight.up.clear();
  if (!at) at = batch_in_flight.memory.data();
  for (size_t i = 0; i < batch.inputs.size(); ++i) {
    if (batch.input_bytes(i) == 0) continue;
    if (auto s = lay_out_input(batch, i, at, batch_in_flight); !s.ok()) return s;
    at += padded(batch.input_bytes(i));
  }
  for (size_t i = 0; i < sizes_.size(); ++i) {
    if (sizes_[i] == 0) continue;
    base::Block to(deps_.slabs->take(sizes_[i]));
    if (!to) return base::try_again(Code::kResourceExhausted, "no pinned memory is free");
    to.resize(sizes_[i]);
    batch_in_flight.out[i] = {to.data(), in_place() ? batch_in_flight.in[i].device : at, sizes_[i]};
    if (!in_place()) at += padded(sizes_[i]);
    batch.outputs[i].data = to.freeze();
    batch_in_flight.held.push_back(batch.outputs[i].data);
  }
  return {};
}

Status DeviceEngine::queue(const Batch& batch, DeviceBatch& batch_in_flight) {
  auto& device = *deps_.device;
  std::vector<Copy> from;
  for (const auto& p : batch_in_flight.out)
    if (p.bytes > 0) from.push_back({p.host, p.device, p.bytes});
  return all([&] { return device.copy(up_, Way::kToDevice, batch_in_flight.up); },
             [&] { return device.record(batch_in_flight.arrived, up_); },
             [&] { return device.wait(run_, batch_in_flight.arrived); },
             [&] { return compute(batch, run_, batch_in_flight.in, batch_in_flight.out); },
             [&] { return device.record(batch_in_flight.computed, run_); },
             [&] { return device.wait(down_, batch_in_flight.computed); },
             [&] { return device.copy(down_, Way::kToHost, from); });
}

Status DeviceEngine::launch(Batch& batch) {
  auto& batch_in_flight = batches_[batch.slot];
  batch_in_flight.reached = 0;
  if (auto s = lay_out(batch, batch_in_flight); !s.ok()) {
    // Nothing is queued: what was taken is free again.
    batch_in_flight.held.clear();
    return give_up(batch, batch_in_flight, std::move(s));
  }
  batch_in_flight.launched = base::steady_now();
  auto status = all([&] { return queue(batch, batch_in_flight); },
                    [&] { return deps_.device->record(batch_in_flight.landed, down_); });
  if (status.ok()) return status;
  settle(batch_in_flight);
  return give_up(batch, batch_in_flight, std::move(status));
}

base::Result<Engine::Landing> DeviceEngine::poll(Batch& batch) {
  auto& batch_in_flight = batches_[batch.slot];
  auto& device = *deps_.device;
  const device::Event* events[] = {&batch_in_flight.arrived, &batch_in_flight.computed, &batch_in_flight.landed};
  base::Time* marks[] = {&batch.marks.arrived, &batch.marks.computed, &batch.marks.landed};
  for (; batch_in_flight.reached < 3; ++batch_in_flight.reached) {
    auto progress = device.progress(*events[batch_in_flight.reached]);
    Status status = progress ? Status() : progress.error();
    auto now = base::steady_now();
    if (progress && *progress == Progress::kPending) {
      if (now - batch_in_flight.launched <= deps_.patience) return Landing::kUnderWay;
      status = device::give_up(device, deps_.patience);
    }
    if (!status.ok()) {
      settle(batch_in_flight);
      return give_up(batch, batch_in_flight, std::move(status));
    }
    *marks[batch_in_flight.reached] = now;
  }
  batch_in_flight.held.clear();
  batch_in_flight.memory = {};
  Status became = outcome(batch);
  if (became.ok()) return Landing::kLanded;
  batch.outputs.clear();
  return became;
}

Status DeviceEngine::step(Batch& batch) {
  if (auto s = launch(batch); !s.ok()) return s;
  for (device::PollBackoff backoff;; backoff.wait()) {
    auto landing = poll(batch);
    if (!landing) return landing.error();
    if (*landing == Landing::kLanded) return {};
  }
}

// After a failure in the middle: what was queued before it may still run. Where it is not known when that ends, the
// device keeps the memory.
void DeviceEngine::settle(InFlight& batch_in_flight) {
  auto& device = *deps_.device;
  Status status;
  for (auto* stream : {&up_, &run_, &down_})
    if (status.ok())
      status = all([&] { return device.record(batch_in_flight.landed, *stream); },
                   [&] { return device::await(device, batch_in_flight.landed, deps_.patience); });
  if (!status.ok() && !stale())
    for (auto& bytes : batch_in_flight.held) device.keep(std::move(bytes));
  batch_in_flight.held.clear();
}

Status DeviceEngine::give_up(Batch& batch, InFlight& batch_in_flight, Status why) {
  batch_in_flight.memory = {};
  batch.outputs.clear();
  auto fault = deps_.device->fault();
  if ((!fault.ok() || stale()) && deps_.broken) std::exchange(deps_.broken, nullptr)(fault.ok() ? why : fault);
  return why;
}

}  // namespace weir::sched
