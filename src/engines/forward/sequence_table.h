// SequenceTable: what all shards know of a forwarded model's sequences: which origin has the state of one, and which
// ones lack a request. At most kMost are known; then the one that has been idle longest of the tenant that has most is
// forgotten. Any thread.
//
// Each start of a sequence begins a run of it. Requests of the run before may still be under way then, on other shards:
// how they end says nothing of the new one.
#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "base/env.h"
#include "base/ids.h"
#include "base/status.h"

namespace weir::forward {

struct Origin;

struct SequenceKey {
  uint64_t tenant = 0;
  base::SessionId session;
  friend auto operator<=>(const SequenceKey&, const SequenceKey&) = default;
};

// kUnknown: its start was not seen here, or is forgotten.
enum class SequenceRun : uint64_t { kUnknown };

class SequenceTable {
 public:
  static constexpr size_t kMost = 16 << 10;
  // No request of a broken sequence comes to the origin meanwhile, whose own limit for idle ones ends it.
  static constexpr auto kBrokenFor = std::chrono::minutes(1);

  // It begins anew.
  SequenceRun start(const SequenceKey& key);
  // A request goes on with it. Refused: it lacks one before.
  base::Result<SequenceRun> go_on(const SequenceKey& key, base::Time now);
  // It lacks a request, or nobody knows whether it does: until start(), or for kBrokenFor, which further ones do not
  // make longer. Does nothing where another run has begun.
  void break_off(const SequenceKey& key, SequenceRun run, const base::Status& why, base::Time now);

  // Null: nobody has it. Lost: whoever had it has gone, or is another server by now. Over: the start of a later run
  // than `run` has been sent, whose state a request of `run` would change.
  struct Place {
    Origin* origin = nullptr;
    bool lost = false, over = false;
  };
  Place place_of(const SequenceKey& key, SequenceRun run);
  // The start of `run` is sent to an origin now: maybe long after start(), behind others that wait for answers.
  void send_start(const SequenceKey& key, SequenceRun run);
  // Both do nothing where another run has begun.
  void set_place(const SequenceKey& key, SequenceRun run, Origin& origin);
  void end(const SequenceKey& key, SequenceRun run);

 private:
  struct Known {
    SequenceKey key;
    SequenceRun run = SequenceRun::kUnknown;
    SequenceRun sent = SequenceRun::kUnknown;  // the latest one whose start was sent
    Origin* origin = nullptr;
    uint64_t number = 0;      // of that, as the next
    uint32_t generation = 0;  // of its addresses
    base::Status broken;      // why; OK: it is not
    base::Time broken_until{};
  };

  using OfTenant = std::list<Known>;  // the last of them had a request last

  Known* find(const SequenceKey& key);
  Known& find_or_add(const SequenceKey& key);
  void erase(std::map<SequenceKey, OfTenant::iterator>::iterator one);
  void count(uint64_t tenant, size_t before, size_t now);
  bool is_over(const SequenceKey& key, SequenceRun run) const;

  std::mutex mutex_;
  uint64_t last_run_ = 0;  // this and the rest: under mutex_
  std::map<uint64_t, OfTenant> known_;
  std::set<std::pair<size_t, uint64_t>> counts_;  // how many each tenant has
  std::map<SequenceKey, OfTenant::iterator> at_;  // in known_
};

}  // namespace weir::forward
