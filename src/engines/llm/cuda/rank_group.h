// RankGroup: the ranks beside the first of a model that several devices compute together. Empty where one does: then
// together() is the first rank's work and nothing else.
//
// What fails on one rank would leave the others waiting in a collective: it aborts the collectives of all of them, and
// the model is lost, whatever state its devices are in; it is loaded anew. The model's thread; abort() also workers.
//
// NCCL frees a communicator, closed or aborted, when the last graph that has captured it is gone. So close() destroys
// all ranks' graphs first, and abort() waits for nothing.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/attempt.h"
#include "engines/llm/cuda/rank_worker.h"

namespace weir::llm::cuda {

// A rank beside the first: its device, which outlives it, and its part of the weights.
struct OtherRank {
  device::Device* device = nullptr;
  DeviceWeights weights;
};

class RankGroup {
 public:
  // Both are the first rank's. Graphs have the collectives in them, and go before these do.
  RankGroup(KernelQueue& first, GraphSet& graphs) : first_(first), first_graphs_(graphs) {}
  ~RankGroup() { close(); }
  RankGroup(const RankGroup&) = delete;

  // The first rank's queue is open. `shape` is a rank's part. Errors: as RankWorker::open(), FAILED_PRECONDITION where
  // NCCL is missing or does not connect the devices.
  base::Status open(std::vector<OtherRank> others, const Shape& shape, const RankLimits& limits);
  // Waits for what is queued, before the first rank's queue is closed.
  void close();

  // Does `own` here and `others` on each worker's thread.
  template <class Own, class Others>
  base::Status together(Own own, Others others) {
    if (workers_.empty()) return own();
    if (auto s = lost(); !s.ok()) return s;  // graphs would launch collectives that are no more
    for (auto& worker : workers_)
      worker->begin([this, &others, rank = worker.get()] { return attempt([&] { return others(*rank); }); });
    base::Status status = attempt(own);
    for (auto& worker : workers_)
      if (auto s = worker->finish(); status.ok()) status = std::move(s);
    return status.ok() ? status : lost();
  }
  // As KernelQueue::time_products(), of all ranks.
  template <class Work>
  base::Status time_products(Work work, size_t from = 0) {
    if (from == workers_.size()) return first_.time_products(work);
    return workers_[from]->queue().time_products([&] { return time_products(work, from + 1); });
  }

  // Waits for a step: the first rank's `done`, and the others'.
  base::Status await(const device::Event& done, size_t slot);
  base::Status reserve(uint32_t blocks, uint32_t block_size, size_t arguments);
  base::Status copy_block(uint32_t from, uint32_t to, uint32_t positions);

  bool several() const { return !workers_.empty(); }
  bool graphs_wanted() const;
  // Whether all ranks do: some with a graph and others without do not meet in its collectives.
  bool have_graph(uint64_t key) const;
  uint64_t bytes() const;
  uint64_t weight_bytes() const;
  // OK, or why the model is lost.
  base::Status lost() const;

 private:
  base::Status connect();
  base::Status kept(base::Status status);
  // A rank's work: what it throws would leave the others waiting, too.
  template <class Work>
  base::Status attempt(Work work) {
    base::Status status;
    auto thrown = base::attempt("a device's part of a step", [&] { status = work(); });
    return kept(thrown.ok() ? std::move(status) : std::move(thrown));
  }
  void abort(const base::Status& why);
  // The first rank's event is `done`, the others' that of the slot.
  base::Result<device::Device::Progress> progress_of(size_t rank, const device::Event& done, size_t slot);
  base::Result<device::Device::Progress> progress(const device::Event& done, size_t slot);
  base::Status give_up(const device::Event& done, size_t slot);

  KernelQueue& queue_of(size_t rank) { return rank == 0 ? first_ : workers_[rank - 1]->queue(); }

  KernelQueue& first_;
  GraphSet& first_graphs_;
  std::chrono::nanoseconds patience_{};
  std::vector<std::unique_ptr<RankWorker>> workers_;
  std::vector<Communicator*> communicators_;  // the first rank's at the front
  mutable std::mutex mutex_;
  base::Status lost_;  // under mutex_
};

}  // namespace weir::llm::cuda
