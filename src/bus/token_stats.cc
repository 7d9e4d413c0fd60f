#include "bus/token_stats.h"

namespace weir::bus {

double TokenStats::kv_usage() const {
  int64_t total = blocks_total.value();
  return total > 0 ? double(blocks_used.value()) / double(total) : 0;
}

// A prefill that was asked for no token has reached its length.
TokenStats::Reason reason_of(msg::Finish finish) {
  bool stopped = finish == msg::Finish::kEos || finish == msg::Finish::kStopId;
  return stopped ? TokenStats::Reason::kStop : TokenStats::Reason::kLength;
}

}  // namespace weir::bus
