#include "sched/flights.h"

#include <utility>

#include "base/check.h"

namespace weir::sched {

Flights::Flights(Engine& engine, uint32_t instance, const msg::ModelSpec& spec, bus::ModelStats& stats,
                 base::SlabSource& slabs) {
  for (uint32_t slot = 0; slot < engine.depth(); ++slot) {
    flights_.push_back(std::make_unique<Flight>(engine, spec, stats, slabs));
    flights_.back()->room.batch.slot = slot;
    flights_.back()->room.instance = int32_t(instance);
  }
}

Flights::~Flights() { base::check(empty() && waiting_.empty(), "every batch has landed"); }

void Flights::launch(const std::vector<msg::Call*>& calls) {
  auto& runner = flights_[(first_ + under_way_) % flights_.size()]->runner;
  switch (runner.launch(calls, empty() ? Runner::Company::kAlone : Runner::Company::kOthers)) {
    case Runner::Launched::kUnderWay: ++under_way_; break;
    case Runner::Launched::kOver: runner.post(); break;
    case Runner::Launched::kLater: waiting_ = calls; break;
  }
}

bool Flights::land() {
  bool any = false;
  while (under_way_ > 0 && flights_[first_]->runner.land()) {
    flights_[first_]->runner.post();
    first_ = (first_ + 1) % flights_.size();
    --under_way_, any = true;
    if (!waiting_.empty()) launch(std::exchange(waiting_, {}));
  }
  return any;
}

}  // namespace weir::sched
