// ResponseStats: what the answers of a decoupled model took, for the protocols' statistics.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "bus/catalog.h"
#include "bus/first_responses.h"
#include "bus/stats.h"

namespace weir::bus {

// Counts the answers that have one place among those to their request, as Triton does: how long each came after the one
// before. `empty` is the end that has no tensors.
struct ResponseStat {
  DurationStat compute_infer, compute_output, success, fail, empty, cancel;
};
class ResponseStats {
 public:
  static constexpr size_t kRows = 64;  // answers from there on are counted in the last row
  ResponseStat& at(size_t place) { return rows_[std::min(place, kRows - 1)]; }
  // One answer, or a failure in its place.
  void add(size_t place, base::Code code, uint64_t took_ns) {
    ResponseStat& row = at(place);
    if (code != base::Code::kOk) return (code == base::Code::kCancelled ? row.cancel : row.fail).add(took_ns);
    row.compute_infer.add(took_ns);
    row.compute_output.add(0);
    row.success.add(took_ns);
  }
  const std::array<ResponseStat, kRows>& rows() const { return rows_; }

 private:
  std::array<ResponseStat, kRows> rows_;
};

// An Inbox of a decoupled model is one of these, too.
class CountsResponses {
 public:
  const ResponseStats& response_stats() const { return responses_; }
  const FirstResponses& first_responses() const { return first_; }
  FirstResponses& first_responses() { return first_; }

 protected:
  ~CountsResponses() = default;

  ResponseStats responses_;
  FirstResponses first_;
};

// Null: the model answers once, or something stands in front of its Inbox (max_concurrency).
inline const CountsResponses* counts_responses(const Served& served) {
  return dynamic_cast<const CountsResponses*>(served.inbox.get());
}
inline const ResponseStats* response_stats(const Served& served) {
  const auto* counts = counts_responses(served);
  return counts ? &counts->response_stats() : nullptr;
}

}  // namespace weir::bus
