#include "bus/token_stats.h"

namespace weir::bus {

double TokenStats::kv_usage() const {
  int64_t total = blocks_total.value();
  return total > 0 ? double(blocks_used.value()) / double(total) : 0;
}

// A prefill that was asked for no token has reached its length.
TokenStats::Reason reason_of(msg::Finish finish) {
  const bool cut = finish == msg::Finish::kNone || finish == msg::Finish::kLength;
  return cut ? TokenStats::Reason::kLength : TokenStats::Reason::kStop;
}

}  // namespace weir::bus
