// BodyMemory: schedules the memory of request bodies on one shard. It knows the bodies that hold slabs and those that
// wait for one.
//
// A body for which there is no slab waits, for up to Rules::wait and not past its request's deadline; then the request
// is refused, and its client may try again. When slabs are freed, waiting bodies try in the order of the bytes that
// their clients hold, the least first, and then in the order of arrival; a new body does not pass one whose client
// holds less. A client that holds its share of the memory waits while memory is scarce, even if a slab is free.
//
// While a body waits, on any shard, bodies of silent peers lose their memory: those that have been silent for
// Rules::silence or longer, the longest silent first, as many as are needed.
//
// One per shard, on its thread. It neither reads sockets nor answers requests: the owner of a Body does.
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
    uint64_t budget = 0;  // bytes, of which `share` is a part; 0: clients have no shares
  };
  // The memory that bodies of all shards wait for, together. Any thread.
  struct Need {
    std::atomic<uint64_t> bytes{0};
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
    // Called while it waits: it may try to take a slab now. It goes on waiting until hold() or leave() is called for
    // it.
    virtual void on_memory_free() = 0;
    // It has waited too long, or lost the memory that it held: the owner refuses the request. leave() has been done.
    virtual void on_memory_lost(Loss why) = 0;
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

  // Bytes of the body have come, and it holds slabs that are not full: it waits no longer, and its silence begins now.
  void hold(Body& body, base::Client* client);
  // There was no slab of `bytes` for it: it waits from now on, if it did not before, and not past `deadline` (kNever:
  // there is none).
  void wait(Body& body, base::Client* client, uint64_t bytes, base::Time deadline = base::kNever);
  // It no longer needs memory: it is complete, or has given its slabs back.
  void leave(Body& body);
  // Whether a body of that client may take so many bytes now: no body of a client that holds less waits, and the client
  // does not hold its share already while memory is scarce.
  bool may_take(const base::Client* client, uint64_t bytes, const base::SlabSource& slabs, BodySize size) const;

  // Slabs were freed: lets waiting bodies try, in their order.
  void slabs_freed();
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
  std::vector<Body*> round_;     // in slabs_freed(): those still to be called; null: it has left
  uint64_t least_ = UINT64_MAX;  // bytes that a client of a waiting body holds, the fewest; as of the last round
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

// On whose behalf a body takes slabs. `bodies` null: no queue is asked. `client` null: no client is charged.
struct BodyOwner {
  BodyMemory* bodies = nullptr;
  base::Client* client = nullptr;

  using Size = BodySize;
  // A slab, charged to the client; null when there is none, or when it is not this client's turn.
  base::Slab* take(base::SlabSource& slabs, uint64_t bytes, Size size) const;
};

}  // namespace weir::wire
