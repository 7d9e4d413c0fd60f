// FairQueue: the order in which calls of many tenants are served: start-time fair queueing (Goyal, Vin and Cheng,
// 1996), counted in rows.
//
// A call starts, in virtual time, where its tenant's call before it ends; a tenant of which nothing waits starts with
// the next round, of `round` rows, that has not begun. Calls are served by the rounds in which they start, and in one
// round as they came. So one tenant alone, and tenants with few rows each, are served first in, first out; a tenant's
// first call stands behind less than two rounds and two calls of each other tenant, however many calls those have; and
// what waits is not put off by those that come later, however many tenants they are of.
//
// Calls that were delayed are served after all that were not, in turns of their own.
//
// A call is known by its slot, a small number that is free again once the call is out: whoever uses this keeps the
// calls in an array of its own. Pure. Each step takes constant time, but where it says otherwise; memory stays for the
// most calls and tenants that ever waited at once.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weir::sched {

class FairQueue {
 public:
  using Slot = uint32_t;
  static constexpr Slot kNone = UINT32_MAX;

  explicit FairQueue(uint32_t round) : shift_(uint32_t(std::bit_width(round)) - 1) {}  // a power of two

  // `rows`: what the call costs; a small multiple of `round` at most, since as many rounds are kept track of.
  Slot push(uint64_t tenant, uint32_t rows);
  // Puts it behind all calls that are not delayed, those to come among them.
  void delay(Slot slot);
  // The call is run: its tenant has had its turn. Calls are served in order, save for those that leave().
  void serve(Slot slot);
  // The call goes without having been run: its tenant's next call does not wait for that.
  void leave(Slot slot);

  Slot first() const { return lines_[0].head != kNone ? lines_[0].head : lines_[1].head; }
  // The one behind it; kNone after the last.
  Slot after(Slot slot) const {
    const auto& call = calls_[slot];
    return call.next == kNone && !call.delayed ? lines_[1].head : call.next;
  }
  bool delayed(Slot slot) const { return calls_[slot].delayed; }
  size_t size() const { return size_; }

  // Which call makes room for one of `tenant` in a full queue: the newest one of the tenant that has most. kNone when
  // that tenant would then have fewer than this one. Linear in the tenants, unless half of the calls are `tenant`'s.
  Slot surplus(uint64_t tenant) const;
  size_t tenants() const { return tenants_.size(); }  // that are kept track of

 private:
  struct Waiting {
    uint64_t start = 0;  // in rows
    uint32_t rows = 0, tenant = 0;
    Slot next = kNone, before = kNone;  // in the line
    Slot newer = kNone, older = kNone;  // of the same tenant, in the same line
    bool delayed = false;
  };
  struct Line {
    Slot head = kNone, tail = kNone;
    uint64_t first = 0, last = 0;  // their rounds
    uint64_t next = 0;             // virtual time: where the first round begins of which nothing was served
    uint64_t end = 0;              // the latest end of those that were served
    std::vector<Slot> rounds;      // a ring: the last call of each round; a power of two
  };
  struct Tenant {
    uint64_t id = 0;
    uint32_t calls = 0;
    struct {
      Slot newest = kNone;
      uint64_t end = 0;  // of the last one that was served
    } lines[2];
  };

  uint64_t round_of(Slot slot) const { return calls_[slot].start >> shift_; }
  Slot& last_of(Line& line, uint64_t round) { return line.rounds[round & (line.rounds.size() - 1)]; }
  void join(Slot slot);
  void place(Line& line, Slot slot);
  void insert(Line& line, Slot slot, Slot before);
  void reach(Line& line, uint64_t rounds);
  void unlink(Slot slot);
  void forget(Slot slot);
  uint32_t tenant(uint64_t id);
  uint32_t find(uint64_t id) const;
  size_t probe(uint64_t id) const;
  void prune();

  const uint32_t shift_;       // of a start to its round
  std::array<Line, 2> lines_;  // on time, delayed
  std::vector<Waiting> calls_;
  Slot free_ = kNone;  // linked by `next`
  size_t size_ = 0;
  std::vector<Tenant> tenants_;
  std::vector<uint32_t> index_;  // of tenants_, by hashed id; a power of two, at most half full
  uint32_t latest_ = kNone;      // the tenant of the last push()
};

}  // namespace weir::sched
