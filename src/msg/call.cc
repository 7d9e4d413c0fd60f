#include "msg/call.h"

namespace weir::msg {

const ParamValue* find(const Parameters& parameters, std::string_view name) {
  for (const auto& [key, value] : parameters)
    if (key == name) return &value;
  return nullptr;
}

void Call::clear() {
  model.clear(), version.clear(), id.clear();
  inputs.clear(), outputs.clear(), parameters.clear();
  priority = 0;
  deadline = base::kNever;
  queue_timeout = {};
  tenant = 0;
  cache_scope = 0;
  limiter = nullptr;
  trace = nullptr;
  session = {};
  adapter = 0;
  takes_errors = false;
  generation = nullptr;
  sink = nullptr;
  ticket = {};
  home = nullptr;
  lease = nullptr;
  times = {};
  steps = nullptr;
  progress = {};
  rows = 1;
  cancelled.store(false, std::memory_order_relaxed);
  satisfied.store(false, std::memory_order_relaxed);
  credit.store(1 << 30, std::memory_order_relaxed);
}

}  // namespace weir::msg
