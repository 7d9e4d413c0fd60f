// Workers that work when a test says so.
#pragma once

#include <utility>
#include <vector>

#include "bus/offload_task.h"

namespace weir::support {

class HeldWorkers final : public msg::Inbox {
 public:
  std::vector<bus::OffloadCall*> held;
  int pokes = 0;

  void put(msg::Call* call) override { held.push_back(static_cast<bus::OffloadCall*>(call)); }
  void poke() override { ++pokes; }
  // All of them, in the order in which they came.
  void work() {
    for (auto* call : std::exchange(held, {})) {
      call->task->run();
      call->home->post_here({call, {msg::Done{}}});
    }
  }
  void refuse(base::Status status) {
    for (auto* call : std::exchange(held, {})) call->home->post_here({call, {msg::Failed{status}}});
  }
};

}  // namespace weir::support
