// RequestPace: what holds a peer to its request while it comes in: the rate that it owes once it has begun a message,
// and the memory that the message has or waits for (wire/body_memory.h).
#pragma once

#include <cstdint>
#include <string_view>

#include "base/env.h"
#include "base/status.h"
#include "wire/body_memory.h"
#include "wire/guard.h"

namespace weir::wire {

class RequestPace final : BodyMemory::Body {
 public:
  // The receiver of the request.
  class Owner {
   public:
    // Memory that is held for request bytes, come or not.
    virtual uint64_t reserved() const = 0;
    // There may be a slab now.
    virtual void memory_came() = 0;
    // The request is too slow, or has found no memory in time: the call ends.
    virtual void give_up(std::string_view reject, const base::Status& why) = 0;

   protected:
    ~Owner() = default;
  };
  struct Rules {
    uint32_t min_body_rate = 0;  // bytes a second, enforced after `grace`; 0: no floor
    base::Duration grace{};
    BodyOwner owner;  // who waits for slabs, and for whom
  };

  RequestPace(base::Env& env, base::SlabSource& slabs, const Rules& rules, Owner& owner)
      : env_(env), slabs_(slabs), rules_(rules), owner_(owner) {}
  ~RequestPace() { stop(); }

  // So many bytes of the request have come, and the peer owes the rest of a message that it has begun, or does not.
  // The rest of the body must keep coming: a peer that is too slow is cut off.
  enum class Owes : uint8_t { kNothing, kRest };
  void came(size_t bytes, Owes owes);
  // A slab of `bytes` was not to be had: memory_came() when there may be one. False: nobody keeps order, so the owner
  // asks again itself. fed() says that there was one.
  bool starved(uint64_t bytes, base::Time deadline);
  void fed() { starved_ = false; }
  // Nothing is owed any more, nor waited for.
  void stop();

  const BodyOwner& owner() const { return rules_.owner; }

 private:
  void follow_memory(Owes owes);
  void watch();

  // BodyMemory::Body
  void memory_came() override { owner_.memory_came(); }
  void memory_lost(BodyMemory::Loss why) override;
  uint64_t memory_held() const override { return owner_.reserved(); }

  base::Env& env_;
  base::SlabSource& slabs_;
  const Rules rules_;
  Owner& owner_;
  base::TimerId timer_ = base::TimerId::kNone;
  RateFloor floor_;
  bool starved_ = false;  // waits for a slab
};

}  // namespace weir::wire
