// RequestPace: limits how slowly a request may come in, once a message has begun, and keeps the request's place in the
// queue for the memory of bodies (wire/body_memory.h).
#pragma once

#include <cstdint>
#include <string_view>

#include "base/env.h"
#include "base/status.h"
#include "wire/body_memory.h"
#include "wire/rate_floor.h"

namespace weir::wire {

class RequestPace final : BodyMemory::Body {
 public:
  // The receiver of the request.
  class Owner {
   public:
    // The memory that is reserved for request bytes, whether they have come or not.
    virtual uint64_t reserved() const = 0;
    // There may be a slab now: the owner tries again.
    virtual void on_memory_free() = 0;
    // The request is too slow, or has found no memory in time: the call ends.
    virtual void give_up(std::string_view reject, const base::Status& why) = 0;

   protected:
    ~Owner() = default;
  };
  struct Rules {
    uint32_t min_body_rate = 0;  // bytes a second, enforced after `grace`; 0: no floor
    base::Duration grace{};
    BodyOwner owner;               // the queue for slabs, and the client that is charged
    SharedPace* shared = nullptr;  // Exchange::pace
  };

  RequestPace(base::Env& env, base::SlabSource& slabs, const Rules& rules, Owner& owner)
      : env_(env), slabs_(slabs), rules_(rules), owner_(owner) {}
  ~RequestPace() { stop(); }

  // `bytes` more of the request have come. `pending`: whether the rest of a message is still to come; if it is, the
  // peer must keep up the rate of Rules, or the owner gives up. One that waits for others of its connection need not.
  enum class Pending : uint8_t { kNothing, kRestOfMessage };
  void received(size_t bytes, Pending pending);
  // No slab of `bytes` was free: on_memory_free() follows when there may be one, and the owner calls fed() when it got
  // one. False: there is no queue, and the owner has to try again by itself.
  bool starved(uint64_t bytes, base::Time deadline);
  void fed() { starved_ = false; }
  // No more of the request is wanted: ends the rate limit and the wait for memory.
  void stop();

  const BodyOwner& owner() const { return rules_.owner; }

 private:
  void follow_memory(Pending pending);
  void watch();
  void await(uint32_t rate);
  uint32_t least_rate() const;

  // BodyMemory::Body
  void on_memory_free() override { owner_.on_memory_free(); }
  void on_memory_lost(BodyMemory::Loss why) override;
  uint64_t memory_held() const override { return owner_.reserved(); }

  base::Env& env_;
  base::SlabSource& slabs_;
  const Rules rules_;
  Owner& owner_;
  base::TimerId timer_ = base::TimerId::kNone;
  RateFloor floor_;
  uint32_t awaited_ = 0;  // Rules::shared knows of it
  bool starved_ = false;  // waits for a slab
};

}  // namespace weir::wire
