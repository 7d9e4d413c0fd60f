// CallDurations: what each call of a model took, for readers to whom sums say too little: in how many calls the answer
// came within a bound, and quantiles of the last minute. ModelStats has one where the settings ask for it. Any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "bus/first_responses.h"

namespace weir::bus {

// How much is kept of the durations of calls, beside their sums. kQuantiles takes 130 KiB of memory for each version of
// a model, and a lock of its own for each call.
enum class KeptDurations : uint8_t { kSums, kHistogram, kQuantiles };

class CallDurations {
 public:
  // In nanoseconds, from the beginning of its wait on.
  struct Call {
    uint64_t whole, queue, input, infer, output;
  };
  enum class Part : uint8_t { kWhole, kQueue, kInput, kInfer, kOutput };
  static constexpr size_t kParts = 5;

  // `bounds_ms` of the histogram: FirstResponses::set_bounds(); empty: its own.
  CallDurations(KeptDurations kept, const std::vector<double>& bounds_ms);
  ~CallDurations();

  // `at_ms`: when it was answered. Unix time.
  void add(const Call& call, uint64_t at_ms);
  // The same of one that did not run: its answer was kept.
  void add_cached(uint64_t whole_ns, uint64_t at_ms);

  // For calls with one answer, which came at their ends.
  const FirstResponses& answers() const { return answers_; }
  bool has_quantiles() const { return recent_ != nullptr; }
  // In microseconds, within 3 %: of the calls that were answered in the 50 to 60 seconds before `now_ms`. NaN where
  // there were none. `shares`: of calls, 0 to 1.
  std::vector<double> quantiles(Part part, const std::vector<double>& shares, uint64_t now_ms) const;

 private:
  struct Recent;
  void add(const std::array<uint64_t, kParts>& ns, size_t parts, uint64_t at_ms);

  FirstResponses answers_;
  mutable std::mutex mutex_;
  const std::unique_ptr<Recent> recent_;  // null: there are no quantiles; its content under mutex
};

}  // namespace weir::bus
