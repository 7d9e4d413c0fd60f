// Counts the Calls of a pipeline with a decoupled node, and their answers.
#pragma once

#include "bus/response_stats.h"
#include "bus/stats.h"
#include "msg/call.h"
#include "sched/decoupled_run.h"

namespace weir::sched {

class DecoupledCounts {
 public:
  // All outlive this.
  DecoupledCounts(bus::ModelStats& stats, bus::ResponseStats& responses, bus::FirstResponses& first)
      : stats_(stats), responses_(responses), first_(first) {}

  // An answer, or an error in its place, which is not the end. Those of a run come one after the other, on any thread.
  void answer(DecoupledRun& run, const msg::Event& event);
  // The end, which may be an answer, too. The times of the run's Call are there.
  void end(DecoupledRun& run, const msg::Event& event);

 private:
  bus::ModelStats& stats_;
  bus::ResponseStats& responses_;
  bus::FirstResponses& first_;
};

}  // namespace weir::sched
