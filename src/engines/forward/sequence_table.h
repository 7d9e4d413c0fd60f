// SequenceTable: what all shards know of a forwarded model's sequences: which origin has the state of one, and which
// ones lack a request. At most kMost have a place; the one that has been idle longest is forgotten. Any thread.
#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>

#include "base/env.h"
#include "base/ids.h"
#include "base/status.h"
#include "msg/broken_sequences.h"

namespace weir::forward {

struct Origin;

struct SequenceKey {
  uint64_t tenant = 0;
  base::SessionId session;
  friend auto operator<=>(const SequenceKey&, const SequenceKey&) = default;
};

class SequenceTable {
 public:
  static constexpr size_t kMost = 16 << 10;
  // No request of a broken sequence comes to the origin meanwhile, whose own limit for idle ones ends it.
  static constexpr auto kBrokenFor = std::chrono::minutes(1);

  // It lacks a request, or nobody knows whether it does: until start(), or for kBrokenFor, which further ones do not
  // make longer.
  void break_off(const SequenceKey& key, const base::Status& why, base::Time now);
  // Why its requests are refused; OK: they are not.
  base::Status refusal(const SequenceKey& key, base::Time now);
  // It begins anew.
  void start(const SequenceKey& key);

  // Null: nobody has it. Lost: whoever had it has gone, or is another server by now.
  struct Place {
    Origin* origin = nullptr;
    bool lost = false;
  };
  Place place_of(const SequenceKey& key);
  void set_place(const SequenceKey& key, Origin& origin);
  void end(const SequenceKey& key);

 private:
  struct Broken {
    base::Status why;
    base::Time until;
  };
  struct Placed {
    SequenceKey key;
    Origin* origin = nullptr;
    uint64_t number = 0;      // of that, as the next
    uint32_t generation = 0;  // of its addresses
  };

  std::mutex mutex_;
  msg::BrokenSequences<SequenceKey, Broken> broken_;       // this and the rest: under mutex_
  std::list<Placed> placed_;                               // the last of them had a request last
  std::map<SequenceKey, std::list<Placed>::iterator> at_;  // in placed_
};

}  // namespace weir::forward
