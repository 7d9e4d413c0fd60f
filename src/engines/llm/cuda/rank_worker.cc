#include "engines/llm/cuda/rank_worker.h"

#include <utility>

#include "engines/llm/cuda/launches.h"

namespace weir::llm::cuda {
namespace {

using base::Status;

// The other ranks have no logits.
Shape without_logits(Shape shape) {
  shape.vocabulary = 0;
  return shape;
}

}  // namespace

RankWorker::RankWorker(device::Device& device, const Kernels& kernels, Shape shape, DeviceWeights weights,
                       RankLimits limits)
    : shape_(without_logits(std::move(shape))),
      weights_(std::move(weights)),
      limits_(limits),
      queue_(device, kernels, limits.patience),
      cache_(shape_, limits.kv_codes),
      graphs_(device, queue_.stream(), limits.graphs),
      forward_(queue_, shape_, weights_, no_readouts_, activations_, cache_),
      arguments_(shape_.hidden, [this] { graphs_.clear(); }),
      slots_(limits.steps),
      thread_([this] { work_off(); }) {}

RankWorker::~RankWorker() {
  {
    std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void RankWorker::close() { queue_.close(); }

Status RankWorker::open() {
  if (auto s = queue_.open(device::Device::Priority::kUrgent); !s.ok()) return s;
  if (auto s = forward_.choose_prefill(limits_.wgmma); !s.ok()) return s;
  device::Device& device = queue_.device();
  for (Slot& slot : slots_) {
    auto done = device.event();
    if (!done) return done.error();
    slot.done = std::move(*done);
  }
  return each([&] { return activations_.allocate(device, shape_, limits_.tokens, 1); },
              [&] { return forward_.reserve_parts(limits_.running, limits_.parts); },
              [&] { return queue_.open_products(activations_.workspace); });
}

Status RankWorker::reserve(uint32_t blocks, uint32_t block_size, size_t arguments) {
  return each([&] { return cache_.reserve(queue_.device(), blocks, block_size); },
              [&] { return arguments_.fit(queue_, arguments); });
}

Status RankWorker::queue(const RankStep& step, std::optional<uint64_t> key) {
  Slot& slot = slots_[step.slot];
  return each([&] { return slot.staging.size() > 0 ? queue_.await(slot.done) : Status(); },  // the slot's last step
              [&] { return arguments_.upload(queue_, step.step, step.layout, step.sampling, slot.staging); },
              [&] { return key ? graphs_.run(*key, [&] { return pass(step); }) : pass(step); },
              [&] { return queue_.record(slot.done); });
}

Status RankWorker::make_graph(const RankStep& step, uint64_t key) {
  return graphs_.make(key, [&] { return pass(step); });
}

Status RankWorker::pass(const RankStep& step) {
  const ResultLayout none;
  return forward_.run({step.step, step.layout, arguments_.at(), none, nullptr, nullptr});
}

// --- the thread ------------------------------------------------------------------------------------------------------

void RankWorker::begin(std::function<Status()> work) {
  {
    std::lock_guard lock(mutex_);
    work_ = std::move(work);
  }
  changed_.notify_all();
}

Status RankWorker::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !work_; });
  return std::exchange(status_, Status());
}

void RankWorker::work_off() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return work_ || ends_; });
    if (!work_) return;
    lock.unlock();
    Status status = work_();
    lock.lock();
    work_ = nullptr, status_ = std::move(status);
    changed_.notify_all();
  }
}

}  // namespace weir::llm::cuda
