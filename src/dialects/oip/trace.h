// Traces: the protocol's trace settings, and what they do here: every trace_rate-th request of a model is written to
// the log, or to a file in Triton's form, until trace_count of them have been written.
//
//   trace_level    OFF | TIMESTAMPS, TENSORS (a list)   server-wide or per model
//   trace_rate     1, 2, …                     one request in so many; 1000 by default
//   trace_count    -1 = without limit          requests still to be written
//   log_frequency  0, 1, …                     kept and shown; what is traced is written at once, whatever it is
//   trace_file, trace_mode                     shown (oip.trace_file; "triton"); setting the file is UNIMPLEMENTED
// A model without a setting of its own has the server's. Shared by all shards; any thread. While everything is OFF a
// request costs one relaxed load.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory_ledger.h"
#include "base/metrics.h"
#include "base/status.h"
#include "dialects/oip/trace_file.h"
#include "dialects/oip/traced_tensors.h"
#include "msg/call.h"

namespace weir::oip {

// One request: whether it is traced, and what has been seen of it.
struct Traced {
  static constexpr uint8_t kTimestamps = 1, kTensors = 2;
  uint8_t levels;  // 0: it is not traced
  TracedTensors tensors;
};

class Traces {
 public:
  using Settings = std::map<std::string, std::vector<std::string>>;

  // At start: the server's values that an empty list goes back to. All or nothing. Errors: as change().
  base::Status begin_with(const Settings& wanted);
  // At start, before there are requests; without it traces go to the log.
  void write_to(std::unique_ptr<TraceFile> file) { file_ = std::move(file); }
  // At start: what tensors are charged to, and where those are counted for which there is no memory.
  void charge_to(base::MemoryLedger& memory, base::Metrics& metrics);
  // The trace file was moved away. Any thread.
  void reopen() {
    if (file_) file_->reopen();
  }

  // In force for `model` ("" = the server).
  Settings settings(std::string_view model) const;
  // An empty list goes back to the server's value (for "": to the one at start). All or nothing. Errors:
  // INVALID_ARGUMENT, UNIMPLEMENTED.
  base::Status change(std::string_view model, const Settings& wanted);

  // A request to that model, by its own name: counts it. Null: it is not traced.
  std::unique_ptr<Traced> begin(const std::string& model) {
    return any_on_.load(std::memory_order_relaxed) ? sample(model) : nullptr;
  }
  // It is over.
  void finished(const Traced& traced, const std::string& model, const msg::Call& call, std::string_view protocol,
                base::Code code);

 private:
  struct Choice {
    std::optional<uint8_t> levels;
    std::optional<uint64_t> rate, log_frequency;
    std::optional<int64_t> count;
  };
  std::unique_ptr<Traced> sample(const std::string& model);
  static base::Status change(Choice& choice, const Settings& wanted, const std::string& file);
  static Choice over(const Choice& first, const Choice& second);
  Choice effective(std::string_view model) const;
  std::string file() const { return file_ ? file_->where() : std::string(); }

  std::unique_ptr<TraceFile> file_;
  base::MemoryLedger* memory_ = nullptr;
  base::Counter* left_out_ = nullptr;  // null: nothing is charged
  std::atomic<uint64_t> last_{0};      // the number of the last trace
  std::atomic<bool> any_on_{false};
  mutable std::mutex mutex_;  // over what follows
  Choice initial_, server_;
  std::map<std::string, Choice, std::less<>> models_;
  std::map<std::string, uint64_t, std::less<>> seen_;
};

}  // namespace weir::oip
