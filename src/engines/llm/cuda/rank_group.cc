#include "engines/llm/cuda/rank_group.h"

#include <algorithm>
#include <numeric>
#include <string>

namespace weir::llm::cuda {
namespace {

using base::Status;
using Progress = device::Device::Progress;
using Clock = std::chrono::steady_clock;

}  // namespace

Status RankGroup::open(std::vector<OtherRank> others, const Shape& shape, const RankLimits& limits) {
  patience_ = limits.patience;
  for (auto& other : others) {
    workers_.push_back(
        std::make_unique<RankWorker>(*other.device, first_.kernels(), shape, std::move(other.weights), limits));
    if (auto s = workers_.back()->open(); !s.ok())
      return base::failure(s.code, other.device->info().id + ": " + s.text);
  }
  return workers_.empty() ? Status() : connect();
}

Status RankGroup::connect() {
  const Collectives* collectives = first_.kernels().collectives;
  if (!collectives) return base::failure(base::Code::kFailedPrecondition, "libweir_cuda.so has no collectives");
  std::vector<int32_t> devices{first_.device().info().index};
  std::string names = first_.device().info().id;
  for (auto& worker : workers_) {
    devices.push_back(worker->queue().device().info().index);
    names += ", " + worker->queue().device().info().id;
  }
  std::vector<Communicator*> made(devices.size(), nullptr);
  const Code code = collectives->open(devices.data(), uint32_t(devices.size()), made.data());
  if (code == Code(kNoLibrary))
    return base::failure(base::Code::kFailedPrecondition,
                         "tensor_parallel_size needs NCCL, and libnccl.so.2 is not there: install libnccl2, or leave "
                         "tensor_parallel_size out");
  if (code != 0)
    return base::failure(base::Code::kFailedPrecondition,
                         "NCCL does not connect " + names + " (code " + std::to_string(code) +
                             "); NCCL_DEBUG=INFO in the server's environment says why");
  communicators_ = std::move(made);
  first_.join(communicators_[0], 0);
  for (size_t i = 0; i < workers_.size(); ++i) workers_[i]->queue().join(communicators_[i + 1], uint32_t(i + 1));
  return {};
}

void RankGroup::close() {
  if (workers_.empty()) return;
  bool faulty = first_.lost();
  for (auto& worker : workers_) faulty = faulty || worker->queue().lost();
  if (faulty) abort(base::failure(base::Code::kUnavailable, "a device of the model is lost"));
  auto end = [](KernelQueue& queue) { return queue.lost() || !queue.stream() || queue.drain().ok(); };
  bool ended = end(first_);  // what was aborted, too, has the communicators until it is done
  for (auto& worker : workers_) ended = end(worker->queue()) && ended;
  if (!ended) abort(base::failure(base::Code::kUnavailable, "a device of the model hangs"));
  first_graphs_.clear();
  for (auto& worker : workers_) worker->clear_graphs();
  for (Communicator* communicator : communicators_) (void)first_.kernels().collectives->close(communicator);
  first_.join(nullptr, 0);
  for (auto& worker : workers_) worker->close();
  communicators_.clear(), workers_.clear();
}

Status RankGroup::reserve(uint32_t blocks, uint32_t block_size, size_t arguments) {
  Status status;
  for (auto& worker : workers_)
    if (status.ok()) status = worker->reserve(blocks, block_size, arguments);
  return status;
}

Status RankGroup::copy_block(uint32_t from, uint32_t to, uint32_t positions) {
  Status status;
  for (auto& worker : workers_)
    if (status.ok()) status = worker->copy_block(from, to, positions);
  return kept(std::move(status));
}

bool RankGroup::graphs_wanted() const {
  return std::all_of(workers_.begin(), workers_.end(), [](const auto& worker) { return worker->graphs_wanted(); });
}

bool RankGroup::have_graph(uint64_t key) const {
  return first_graphs_.has(key) &&
         std::all_of(workers_.begin(), workers_.end(), [&](const auto& worker) { return worker->has_graph(key); });
}

uint64_t RankGroup::bytes() const {
  uint64_t sum = 0;
  for (const auto& worker : workers_) sum += worker->bytes();
  return sum;
}

uint64_t RankGroup::weight_bytes() const {
  uint64_t sum = 0;
  for (const auto& worker : workers_) sum += worker->weight_bytes();
  return sum;
}

// --- steps and faults ------------------------------------------------------------------------------------------------

Status RankGroup::lost() const {
  std::lock_guard lock(mutex_);
  return lost_;
}

// A rank's work has ended so.
Status RankGroup::kept(Status status) {
  if (!status.ok() && !workers_.empty()) abort(status);
  return status;
}

void RankGroup::abort(const Status& why) {
  {
    std::lock_guard lock(mutex_);
    if (!lost_.ok()) return;
    lost_ = base::try_again(base::Code::kUnavailable, why.text);
  }
  for (Communicator* communicator : communicators_) first_.kernels().collectives->abort(communicator);
}

base::Result<Progress> RankGroup::progress_of(size_t rank, const device::Event& done, size_t slot) {
  return queue_of(rank).device().progress(rank == 0 ? done : workers_[rank - 1]->done(slot));
}

// A fault of any rank counts at once, though the others wait for that rank in a collective.
base::Result<Progress> RankGroup::progress(const device::Event& done, size_t slot) {
  if (auto s = lost(); !s.ok()) return s;
  Progress all = Progress::kDone;
  for (size_t rank = 0; rank < communicators_.size(); ++rank) {
    KernelQueue& queue = queue_of(rank);
    const Code code = queue.kernels().collectives->error(communicators_[rank]);
    if (code != 0)
      return base::failure(base::Code::kUnavailable,
                           queue.device().info().id + ": NCCL failed with code " + std::to_string(code));
    auto now = progress_of(rank, done, slot);
    if (!now) return now;
    if (*now == Progress::kPending) all = Progress::kPending;
  }
  return all;
}

Status RankGroup::await(const device::Event& done, size_t slot) {
  if (workers_.empty()) return first_.await(done);
  const auto until = Clock::now() + patience_;
  for (device::PollBackoff backoff;; backoff.wait()) {
    auto now = progress(done, slot);
    if (!now) return (void)kept(now.error()), lost();
    if (*now == Progress::kDone) return {};
    if (Clock::now() > until) return give_up(done, slot);
  }
}

// One that hangs keeps the others waiting: without their collectives these come to an end. Only a device whose own work
// stands once more for so long has hung.
Status RankGroup::give_up(const device::Event& done, size_t slot) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(patience_).count();
  abort(base::failure(base::Code::kUnavailable,
                      "the devices of a model have not answered for " + std::to_string(seconds) + " s"));
  std::vector<size_t> pending(communicators_.size());
  std::iota(pending.begin(), pending.end(), size_t(0));
  const auto until = Clock::now() + patience_;
  for (device::PollBackoff backoff; !pending.empty() && Clock::now() < until; backoff.wait())
    std::erase_if(pending, [&](size_t rank) {
      auto now = progress_of(rank, done, slot);
      return !now || *now == Progress::kDone;
    });
  for (size_t rank : pending) (void)device::give_up(queue_of(rank).device(), patience_);
  return lost();
}

}  // namespace weir::llm::cuda
