#include "sched/in_flight_batches.h"

#include <utility>

#include "base/check.h"

namespace weir::sched {

InFlightBatches::InFlightBatches(Engine& engine, uint32_t instance, const msg::ModelSpec& spec, bus::ModelStats& stats,
                                 base::SlabSource& slabs, ResponseOrder* order) {
  for (uint32_t slot = 0; slot < engine.depth(); ++slot) {
    batches_.push_back(std::make_unique<LaunchedBatch>(engine, spec, stats, slabs));
    batches_.back()->room.batch.slot = slot;
    batches_.back()->room.instance = int32_t(instance);
    batches_.back()->room.order = order;
  }
}

InFlightBatches::~InFlightBatches() { base::check(empty() && waiting_.empty(), "every batch has landed"); }

void InFlightBatches::launch(const std::vector<msg::Call*>& calls, uint64_t number) {
  auto& [room, runner] = *batches_[(first_ + under_way_) % batches_.size()];
  room.number = number;
  switch (runner.launch(calls, empty() ? Runner::Company::kAlone : Runner::Company::kOthers)) {
    case Runner::Launched::kUnderWay: ++under_way_; break;
    case Runner::Launched::kOver: runner.post_last(); break;
    case Runner::Launched::kLater: waiting_ = calls, waiting_number_ = number; break;
  }
}

bool InFlightBatches::land() {
  bool any = false;
  while (under_way_ > 0 && batches_[first_]->runner.land()) {
    batches_[first_]->runner.post_last();
    first_ = (first_ + 1) % batches_.size();
    --under_way_, any = true;
    if (!waiting_.empty()) launch(std::exchange(waiting_, {}), waiting_number_);
  }
  return any;
}

}  // namespace weir::sched
