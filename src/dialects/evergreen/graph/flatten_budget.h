// FlattenBudget: how much the Cursors of a session may visit, all of them together (GraphLimits::visits), and what
// flattening a node would visit, found out beforehand.
#pragma once

#include <optional>

#include "dialects/evergreen/graph/node.h"

namespace weir::evergreen {

class FlattenBudget {
 public:
  // `limits` outlives this.
  explicit FlattenBudget(const GraphLimits& limits) : limits_(limits), visits_left_(limits.visits) {}

  // False: so many visits are not left, and none are from here on.
  bool take(uint64_t visits);
  // A message has come: it brings GraphLimits::visits_per_message.
  void refill();

  // Sums up what flattening the node would visit and give, as far as it is there. The sums are memoised: cheap also
  // where the answer is 2^40. Returns nothing where that takes more than `most` steps.
  std::optional<FlatSize> measure(Node& root, uint64_t most = UINT64_MAX);
  // Steps of the last measure().
  uint64_t measured() const { return measured_; }

 private:
  const GraphLimits& limits_;
  uint64_t visits_left_;
  uint64_t measured_ = 0;
  uint64_t epoch_ = 0;  // of marks in nodes: which measuring it is
};

}  // namespace weir::evergreen
