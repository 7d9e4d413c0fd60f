// DeviceEngine: the way of a batch to a device and back, for engines that compute there.
//
// A batch goes up on one stream, is computed on a second and comes down on a third; events tie them together, so that
// batch n+1 goes up and batch n-1 comes down while n is computed. Nothing waits for the device: poll() asks events.
// Device memory is a part of the device's BufferPool per batch; host memory is always pinned: inputs that are not are
// copied first, and when the server's pool is not pinned for this device the engine has one of its own. Rows of some
// size that are in pinned memory go up from where their calls have them, a copy each.
//
// Faults. What is under way on a device at fault fails with UNAVAILABLE, its host memory is kept out of use until the
// restart, and `broken` is called once. A device that does not get on for `patience` has hung.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "device/await.h"
#include "device/buffer_pool.h"
#include "device/device.h"
#include "device/pool.h"
#include "sched/engine.h"

namespace weir::sched {

class DeviceEngine : public Engine {
 public:
  struct Deps {  // all outlive the engine
    device::Device* device = nullptr;
    device::BufferPool* memory = nullptr;  // of that device
    base::SlabSource* slabs = nullptr;     // the server's
    uint64_t pinned = uint64_t(64) << 20;  // of the engine's own pool, where `slabs` is not pinned
    uint32_t depth = 2;
    std::chrono::nanoseconds patience = device::kPatience;
    std::function<void(base::Status)> broken{};  // called once at most, on the lane
  };
  explicit DeviceEngine(Deps deps);

  // Makes streams, events and, where needed, the pool. Before anything else.
  base::Status start();

  base::Status step(Batch& batch) final;
  uint32_t depth() const final { return deps_.depth; }
  base::Status launch(Batch& batch) final;
  base::Result<Landing> poll(Batch& batch) final;
  base::SlabSource* staging() final { return deps_.slabs; }
  bool takes_rows(const msg::Tensor& rows) const final;
  std::string_view place() const final { return deps_.device->info().id; }

 protected:
  // A tensor's two places. Null and 0 where it is empty or absent; an input whose rows lie apart has no `host`.
  struct Transfer {
    std::byte* host = nullptr;
    std::byte* device = nullptr;
    size_t bytes = 0;
  };
  struct DeviceBatch {
    std::vector<Transfer> in, out;  // as batch.inputs and batch.outputs
    std::vector<device::Copy> up;   // all of `in`, in its order, each tensor in one piece or row by row
    device::Event arrived, computed, landed;
  };

  // Names, types and shapes of batch.outputs, and the bytes of each. The inputs are there.
  virtual base::Status plan(Batch& batch, std::vector<size_t>& bytes) = 0;
  // Outputs lie where inputs lay: as many, each of the same size.
  virtual bool in_place() const { return false; }
  // `bytes` of the device's memory that are free whenever a batch has this one's slot, for engines whose computation
  // has to find its tensors where they lay before; null: the pool gives memory to each batch.
  virtual std::byte* fixed_memory(const Batch& /*batch*/, size_t /*bytes*/) { return nullptr; }
  // Queues the computation on `run`, from in[i].device to out[i].device.
  virtual base::Status compute(const Batch& batch, const device::Stream& run, std::span<const Transfer> in,
                               std::span<const Transfer> out) = 0;
  // The end of the computation, asked for once when the batch has landed. An error is the batch's alone.
  virtual base::Status outcome(const Batch& /*batch*/) { return {}; }
  // Queues it all, up to the last copy down, and records `arrived` and `computed`.
  virtual base::Status queue(const Batch& batch, DeviceBatch& batch_in_flight);

  device::Device& device() { return *deps_.device; }
  base::Result<device::BufferPool::Part> take_memory(size_t bytes) { return deps_.memory->take(bytes); }
  // The bytes that a tensor takes in a batch's memory.
  static size_t padded(size_t bytes) {
    return (bytes + device::BufferPool::kAlign - 1) & ~size_t(device::BufferPool::kAlign - 1);
  }
  const device::Stream& up() const { return up_; }
  const device::Stream& run() const { return run_; }
  const device::Stream& down() const { return down_; }

 private:
  struct InFlight : DeviceBatch {
    device::BufferPool::Part memory;
    std::vector<base::Bytes> held;  // what the device reads and writes
    base::Time launched{};
    int reached = 0;  // of the three events
  };

  base::Status lay_out(Batch& batch, InFlight& batch_in_flight);
  base::Status lay_out_input(const Batch& batch, size_t i, std::byte* at, InFlight& batch_in_flight);
  base::Status send_up(const base::Bytes& from, std::byte* to, InFlight& batch_in_flight);
  base::Result<base::Bytes> pinned(const base::Bytes& bytes);
  base::Status give_up(Batch& batch, InFlight& batch_in_flight, base::Status why);
  void settle(InFlight& batch_in_flight);
  bool stale() const { return deps_.device->epoch() != epoch_; }

  Deps deps_;
  const uint32_t epoch_;
  std::unique_ptr<device::SlabPool> own_;  // or null
  device::Stream up_, run_, down_;
  std::vector<InFlight> batches_;
  std::vector<size_t> sizes_;
};

}  // namespace weir::sched
