// BodyMemory: the request bodies of one shard that hold slabs or wait for them: who goes first, how long one waits, and
// who gives way.
//
// A body for which there is no slab waits, for Rules::wait at most and not past its request's deadline; then the
// request is refused, and its client may try again. When memory comes free, those who wait try in the order of what
// their clients hold, the least first, then of arrival; a body that comes meanwhile does not go before one whose client
// holds less. A client that holds its share of the memory waits while memory is scarce, whatever is free.
//
// While anybody waits, on any shard, bodies that are held for silent peers give way, the one that has been silent for
// longest first, if that is Rules::silence or more, and as many as are needed.
//
// One per shard, on its thread. Nothing in here reads a socket or answers a request: the owner of a Body does.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/client.h"
#include "base/env.h"
#include "base/stepped_charge.h"
#include "wire/limits.h"

namespace weir::wire {

enum class BodySize : uint8_t { kPart, kWhole };  // base::SlabSource::take_part()

class BodyMemory {
 public:
  enum class Loss : uint8_t {
    kWaited,  // there was no memory in time: 503, RESOURCE_EXHAUSTED
    kSilent,  // others need what it held and did not fill: 408, RESOURCE_EXHAUSTED
  };
  struct Rules {
    base::Duration wait = std::chrono::seconds(1);
    base::Duration silence = std::chrono::milliseconds(500);
    base::ShareRule share;
    uint64_t budget = 0;  // of which the share is; 0: there are no shares
  };
  // The need that shards tell each other. Any thread.
  struct Need {
    std::atomic<uint64_t> bytes{0};  // that are waited for
  };

  // A request body, or a message, while it comes in. Not movable; leaves when it is destroyed.
  class Body {
   public:
    Body() = default;
    Body(const Body&) = delete;
    Body& operator=(const Body&) = delete;

   protected:
    ~Body() {
      if (home_) home_->leave(*this);
    }

   private:
    friend class BodyMemory;
    // It waits, and may try now; those who come first are called first. It stays in line until it leaves.
    virtual void memory_came() = 0;
    // Its wait or its hold is over: the owner refuses the request. It has left already.
    virtual void memory_lost(Loss why) = 0;
    virtual uint64_t memory_held() const = 0;  // bytes of slabs

    enum class Place : uint8_t { kNowhere, kHolds, kWaits } place_ = Place::kNowhere;
    BodyMemory* home_ = nullptr;
    base::Client* client_ = nullptr;
    base::Time since_{};                         // waits, or has been silent
    base::Time due_{};                           // kWaits: when it has waited long enough
    uint64_t wanted_ = 0;                        // kWaits: bytes that others may have to give way for
    Body *before_ = nullptr, *after_ = nullptr;  // kHolds: in the order of since_
    size_t at_ = 0;                              // kWaits: its place in waiting_
  };

  BodyMemory(base::Env& env, Need& need, Rules rules) : env_(env), need_(need), rules_(rules) {}
  ~BodyMemory();
  BodyMemory(const BodyMemory&) = delete;

  // Something of the body has come, and it holds slabs that are not full. It waits no more.
  void moved(Body& body, base::Client* client);
  // A slab of `bytes` was not to be had: it is in line from now on, if it was not. Past `deadline` (kNever: none)
  // nobody wants the answer.
  void wait(Body& body, base::Client* client, uint64_t bytes, base::Time deadline = base::kNever);
  // It holds nothing any more, or is whole.
  void leave(Body& body);
  // Whether a body of that client may ask for so many bytes now: nobody waits whose client holds less, and it has not
  // got its share of what is scarce.
  bool may_take(const base::Client* client, uint64_t bytes, const base::SlabSource& slabs, BodySize size) const;

  // Slabs came free: those who wait may try.
  void came();
  size_t waiting() const { return waiting_.size(); }
  const Rules& rules() const { return rules_; }

 private:
  static uint64_t held_by(const base::Client* client) {
    return client && client->limited() ? client->held(base::Held::kSlabBytes) : 0;
  }
  void unlink(Body& body);
  void append(Body& body);
  bool over_share(const base::Client* client, uint64_t bytes) const;
  void arm();
  void check_waiting();
  void refuse_late(base::Time now);
  void free_silent(base::Time now);

  base::Env& env_;
  Need& need_;
  const Rules rules_;
  Body *first_ = nullptr, *last_ = nullptr;  // those that hold; the longest silent first
  std::vector<Body*> waiting_;
  std::vector<Body*> round_;     // of came(): those still to be told; null for who has left
  uint64_t least_ = UINT64_MAX;  // held by the client of one that waits; as of the last look
  base::TimerId timer_ = base::TimerId::kNone;
};

// The client to which a connection charges its heads.
inline base::SteppedCharge::Owner owner_of_heads(const BodyMemory* bodies, base::Client* client) {
  if (!bodies) return {};
  return {client, bodies->rules().share};
}

// The texts of errors that clients read.
inline constexpr std::string_view kNoMemoryInTime =
    "no memory came free for the request in time (limits.memory_wait); try again later";
inline constexpr std::string_view kNoMemoryForHead =
    "there is no memory for the request's head, or you hold your share of it (limits.client_share); try again later";
inline constexpr std::string_view kMemoryGivenAway =
    "memory is short, and the request body was silent: its memory went to others; send it without pauses, later";

// For whom a body takes slabs. Without a memory nobody is asked, without a client nobody is charged.
struct BodyOwner {
  BodyMemory* bodies = nullptr;
  base::Client* client = nullptr;

  using Size = BodySize;
  // A slab, charged to the client; null when there is none, or when it is not this client's turn.
  base::Slab* take(base::SlabSource& slabs, uint64_t bytes, Size size) const;
};

}  // namespace weir::wire
