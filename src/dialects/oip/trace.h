// Traces: the protocol's trace settings, and what they do here: every trace_rate-th request of a model is written to
// the log as one "trace" line with its timeline, until trace_count lines have been written.
//
//   trace_level    OFF | TIMESTAMPS (a list)   server-wide or per model
//   trace_rate     1, 2, …                     one request in so many; 1000 by default
//   trace_count    -1 = without limit          lines still to be written
//   trace_file, log_frequency                  shown (empty, 0); setting them is UNIMPLEMENTED
// A model without a setting of its own has the server's. Shared by all shards; any thread. While everything is OFF a
// request costs one relaxed load.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "msg/call.h"

namespace weir::oip {

class Traces {
 public:
  using Settings = std::map<std::string, std::vector<std::string>>;

  // In force for `model` ("" = the server).
  Settings settings(std::string_view model) const;
  // An empty list goes back to the server's value (for "": to the default). All or nothing. Errors: INVALID_ARGUMENT,
  // UNIMPLEMENTED.
  base::Status change(std::string_view model, const Settings& wanted);

  // A request of `call` to that model, by its own name, is over: counts it, and writes its line when it is its turn.
  void finished(const std::string& model, const msg::Call& call, std::string_view protocol, base::Code code) {
    if (any_on_.load(std::memory_order_relaxed)) record(model, call, protocol, code);
  }

 private:
  struct Choice {
    std::optional<bool> on;
    std::optional<uint64_t> rate;
    std::optional<int64_t> count;
  };
  void record(const std::string& model, const msg::Call& call, std::string_view protocol, base::Code code);
  Choice effective(std::string_view model) const;

  std::atomic<bool> any_on_{false};
  mutable std::mutex mutex_;
  Choice server_;
  std::map<std::string, Choice, std::less<>> models_;
  std::map<std::string, uint64_t, std::less<>> seen_;
};

}  // namespace weir::oip
