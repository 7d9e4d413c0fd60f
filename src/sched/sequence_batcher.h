// SequenceBatcher: which request of which sequence may run now. Pure: whoever steps it says what time it is.
//
// A sequence lives in a slot from its first request to its end: the request that says so, an abort, or a time without
// requests. One request of a sequence runs at a time, in the order of arrival, so that each finds the state that the
// one before has left; requests of different sequences run together. Sequences for which no slot is free wait; those
// of the tenant that has the fewest slots come first, and among them the one that came first.
//
// A request that cannot wait ends its sequence: those that came before it run, and those that come after it are of no
// sequence. So none runs on a state that lacks an earlier one. One that is cancelled, or waits too long for a slot,
// ends it with all that wait in it.
//
// Slots are shared out once they are scarce: where a sequence of one tenant has waited for as long as a sequence may be
// idle, and another tenant has more than its share of the slots, or all of them, the latter's least recently used
// sequence ends. Its next request is told that there is no such sequence.
//
// Both strategies of Triton are this. A slot of `direct` is a place and not one row of an instance; the strategies
// differ in the number of places, and in how rows of different sequences wait for each other (the dynamic batcher
// behind, sched/batcher.h).
//
// Where the state of a sequence comes as an input and leaves as an output, which instance runs a request makes no
// difference. Models with code of their own keep a state in the instance: each sequence in a slot is bound to one, the
// one that has the fewest sequences when it gets the slot, for as long as it has it.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <vector>

#include "base/client.h"
#include "base/env.h"
#include "base/ids.h"
#include "base/memory_ledger.h"
#include "msg/call.h"

namespace weir::sched {

class SequenceBatcher {
 public:
  struct Limits {
    size_t slots = 1;        // sequences at once
    size_t waiting = 256;    // sequences that wait for a slot
    base::Duration idle{0};  // of a sequence between two requests
    base::ShareRule share;   // of slots, and of sequences that wait, that one tenant may hold
    size_t instances = 1;    // that sequences are bound to
    size_t pipelined = 256;  // requests that wait in one sequence: as many as one gRPC stream has on their way
  };
  // Ids of different tenants are different sequences.
  struct Key {
    uint64_t tenant = 0;
    base::SessionId id;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Request {
    msg::Call* call = nullptr;  // never looked into
    bool start = false, end = false;
  };
  // Where a sequence is. kQueued: it has no slot; kReady: its first request may run; kBusy: one runs.
  enum class Place : uint8_t { kQueued, kIdle, kReady, kBusy };
  struct Tenant {
    size_t sequences = 0, slots = 0;  // in all; those in slots
  };
  class Sequence {
   public:
    std::vector<msg::Tensor> state;  // the owner's: what the last request has left; empty at the start
    base::MemoryCharge charge;       // the owner's: for it

    size_t instance() const { return instance_; }  // that it is bound to while it has a slot

   private:
    friend class SequenceBatcher;
    Key key;
    Place place = Place::kQueued;
    bool open = true;      // the last request that came was no end
    bool evicted = false;  // ends once those that wait in it have run
    Request running;
    std::deque<Request> waiting;
    base::Time since = base::kNever;  // of kQueued and kIdle: when it came there
    Tenant* tenant = nullptr;
    size_t instance_ = 0;
    std::list<Sequence*>::iterator at;  // in the list of its place
  };
  // This may run now.
  struct Run {
    Sequence* sequence = nullptr;  // lives until finish()
    Request request;
  };
  enum class Arrival : uint8_t { kAccepted, kNotStarted, kFull, kOverShare, kPipelineFull };

  explicit SequenceBatcher(const Limits& limits) : limits_(limits), bound_(std::max<size_t>(limits.instances, 1)) {}
  SequenceBatcher(const SequenceBatcher&) = delete;
  SequenceBatcher& operator=(const SequenceBatcher&) = delete;

  // kNotStarted: there is no such sequence, or its end has been asked for, and this is no start. kFull, kOverShare: its
  // sequence would have to wait for a slot, and too many do, of all or of its tenant. kPipelineFull: too many requests
  // wait in its sequence, which ends for that. Ask next() afterwards.
  // An exception has changed nothing.
  Arrival arrive(const Key& key, const Request& request, base::Time now);
  // One that may run; false: none. Its sequence waits for finish().
  bool next(Run& out);
  // A request that next() gave out is over, and its sequence, too, if it was the end. kAborts: the sequence is over in
  // any case; those that wait in it are added to `dropped`. Ask next() afterwards. True: the next sequence of that id
  // begins to wait for a slot.
  enum class Finish : uint8_t { kAnswered, kAborts };
  bool finish(Sequence& sequence, Finish how, base::Time now, std::vector<msg::Call*>& dropped);
  // A request of the sequence, if there is one, has been refused: ends it once those that wait in it have run. Ask
  // next() afterwards.
  void end_early(const Key& key, base::Time now);
  // Ends the sequences that have had no request for too long, and one that has to make room for another tenant's.
  void expire(base::Time now);
  // When expire() has something to do; kNever: not before something else happens.
  base::Time expires_at() const;
  // Ends the sequences of waiting requests for which `gone` says so; their waiting requests are added to `dropped`. One
  // that runs comes to its end.
  template <class Gone>
  void drop(Gone&& gone, base::Time now, std::vector<msg::Call*>& dropped);
  // The same of sequences that have no slot.
  template <class Late>
  void time_out(Late&& late, base::Time now, std::vector<msg::Call*>& dropped);

  size_t sequences() const { return all_.size() - list(Place::kQueued).size(); }  // in slots
  size_t waiting() const { return waiting_; }

 private:
  std::list<Sequence*>& list(Place place) { return lists_[size_t(place)]; }
  const std::list<Sequence*>& list(Place place) const { return lists_[size_t(place)]; }
  Sequence& open(const Key& key, base::Time now);
  void move(Sequence& sequence, Place to, base::Time now);
  void bind(Sequence& sequence);
  bool limited(uint64_t tenant) const;
  Arrival may_wait(uint64_t tenant) const;
  void end_early(Sequence& sequence, base::Time now);
  template <class Gone>
  void drop_from(Place place, Gone&& gone, std::vector<msg::Call*>& dropped);
  size_t slot_share() const;
  bool over_share(uint64_t tenant, size_t slots) const;
  base::Time evicts_at() const;
  void evict_for_others(base::Time now);
  bool evict_one(Place place);
  void drop_waiting(Sequence& sequence, std::vector<msg::Call*>& dropped);
  void close(Sequence& sequence);
  void fill_slots(base::Time now);

  const Limits limits_;
  std::map<uint64_t, Tenant> tenants_;         // those that have sequences
  std::map<Key, Sequence> all_;                // ordered: keys that clients choose cannot collide
  std::array<std::list<Sequence*>, 4> lists_;  // by place, in the order in which they came there
  std::vector<size_t> bound_;                  // by instance: the sequences in slots that are bound to it
  size_t waiting_ = 0;
  size_t evicting_ = 0;  // sequences that are evicted and not over
};

template <class Gone>
void SequenceBatcher::drop(Gone&& gone, base::Time now, std::vector<msg::Call*>& dropped) {
  for (Place place : {Place::kQueued, Place::kReady, Place::kBusy}) drop_from(place, gone, dropped);
  fill_slots(now);
}

template <class Late>
void SequenceBatcher::time_out(Late&& late, base::Time now, std::vector<msg::Call*>& dropped) {
  drop_from(Place::kQueued, late, dropped);
  fill_slots(now);
}

template <class Gone>
void SequenceBatcher::drop_from(Place place, Gone&& gone, std::vector<msg::Call*>& dropped) {
  for (auto at = list(place).begin(); at != list(place).end();) {
    Sequence& sequence = **at++;
    if (std::none_of(sequence.waiting.begin(), sequence.waiting.end(), [&](const auto& r) { return gone(*r.call); }))
      continue;
    drop_waiting(sequence, dropped);
    if (place == Place::kBusy)
      sequence.running.end = true;
    else
      close(sequence);
  }
}

}  // namespace weir::sched
