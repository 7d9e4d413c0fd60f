// LaneMasks: the masks of a step's draws are found on a thread of their own while the engine runs the step, so that
// drawing waits for them as little as possible.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "base/workers.h"
#include "generation/engine.h"

namespace weir::generation {

// Used by the lane's thread. The other thread is there once a draw has had a form (Generation::constraint).
class LaneMasks {
 public:
  // Begins with the masks of `step`, which is not changed before end(). Without memory for it nothing is begun: whoever
  // draws finds the mask itself.
  void begin(const TokenStep& step);
  // Waits for those that are begun. Nothing refers to the step's sequences any more.
  void end();

 private:
  void find_all();

  std::vector<msg::TokenConstraint*> constraints_;  // of the step; the worker's until end()
  std::mutex mutex_;
  std::condition_variable done_;
  int running_ = 0;  // under mutex_: begun and not found; -1 where the worker was faster than begin()
  std::unique_ptr<base::Workers> worker_;
};

}  // namespace weir::generation
