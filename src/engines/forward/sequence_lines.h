// SequenceLines: the requests of a sequence one after the other. An origin may be reached by several connections, and
// of requests that are there at once the later may come first, before the sequence's start or behind its end.
// ShardModel's own, on the shard's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "engines/forward/forwarded_call.h"
#include "engines/forward/sequence_table.h"

namespace weir::forward {

class SequenceLines {
 public:
  explicit SequenceLines(SequenceTable& table) : table_(table) {}  // outlives this

  // Calls of tokens have sessions of another kind, and are in none.
  static bool has_line(const ForwardedCall& one) { return !one.makes_tokens() && bool(one.call->session); }
  static SequenceKey key_of(const ForwardedCall& one) { return {one.call->tenant, one.call->session}; }
  enum class Entered : uint8_t { kGoes, kWaits };
  static constexpr size_t kMostInLine = 256;  // as of one sequence of a model that is served here

  // kGoes: the call is its sequence's only one here. Refused: it is in no line, and is not to be sent.
  base::Result<Entered> enter(ForwardedCall& one, base::Time now);
  // It is not answered. Returns those behind it that belong to the same run of its sequence: up to the next one of
  // another run. Where there is none, those that come later are refused as well (SequenceTable::break_off): the
  // origin's state may lack it.
  std::vector<ForwardedCall*> end_run(const ForwardedCall& one, const base::Status& refusal, base::Time now);
  // It is over. Returns the call that may go now, or null.
  ForwardedCall* leave(const ForwardedCall& one);

 private:
  SequenceTable& table_;
  std::map<SequenceKey, std::deque<ForwardedCall*>> lines_;  // the first of each is at an origin
};

}  // namespace weir::forward
