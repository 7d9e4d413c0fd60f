// InFlightBatches: the batches that one engine has under way at once; the lane's side of Engine::launch() and poll().
// They land in the order in which they were launched. A batch for which there is no memory waits until another one has
// landed. Lane thread.
#pragma once

#include <memory>
#include <vector>

#include "base/bytes.h"
#include "bus/stats.h"
#include "msg/call.h"
#include "msg/spec.h"
#include "sched/engine.h"
#include "sched/runner.h"

namespace weir::sched {

class InFlightBatches {
 public:
  // All outlive this.
  InFlightBatches(Engine& engine, uint32_t instance, const msg::ModelSpec& spec, bus::ModelStats& stats,
                  base::SlabSource& slabs, ResponseOrder* order = nullptr);
  ~InFlightBatches();  // nothing is under way

  bool empty() const { return under_way_ == 0; }
  // Whether the next batch may be launched.
  bool has_room() const { return under_way_ < batches_.size() && waiting_.empty(); }

  // `number`: of the batch, where answers have an order.
  void launch(const std::vector<msg::Call*>& calls, uint64_t number = 0);
  // Answers what is over. False when nothing is.
  bool land();

 private:
  struct LaunchedBatch {
    LaunchedBatch(Engine& engine, const msg::ModelSpec& spec, bus::ModelStats& stats, base::SlabSource& slabs)
        : runner(engine, spec, stats, slabs, room) {}
    Runner::Room room;
    Runner runner;
  };

  std::vector<std::unique_ptr<LaunchedBatch>> batches_;  // a ring
  size_t first_ = 0, under_way_ = 0;
  std::vector<msg::Call*> waiting_;
  uint64_t waiting_number_ = 0;
};

}  // namespace weir::sched
