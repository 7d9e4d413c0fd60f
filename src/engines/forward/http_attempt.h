// AttemptOver: what every Attempt that is one HTTP request hands on to that. `Transport`: HttpCall, or what derives
// from it. On one shard's thread.
#pragma once

#include <utility>

#include "engines/forward/http_call.h"

namespace weir::forward {

template <class Transport>
class AttemptOver : public Attempt, protected Transport {
 public:
  void let_go() override { Transport::let_go(); }
  void give_up_late(base::Status status) override { Transport::give_up_late(std::move(status)); }
  bool answered() const override { return Transport::answered(); }

 protected:
  using Transport::Transport;
};

}  // namespace weir::forward
