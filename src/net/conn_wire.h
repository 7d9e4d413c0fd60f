// ConnWire: a connection's place in the turns of its shard's loop, as its codec asks for it.
#pragma once

#include <functional>
#include <utility>

#include "base/env.h"
#include "net/shard_parts.h"
#include "wire/codec.h"

namespace weir::net {

// Owned by the connection. The shard's thread only.
class ConnWire final : public wire::Wire {
 public:
  // The one that is called in those turns.
  class Owner : public Resident {
   public:
    // A turn of tick_next_turn() has begun.
    virtual void resume() = 0;
    // As wire::Wire's.
    virtual size_t undelivered() const = 0;
  };
  ConnWire(Shard::Parts& shard, Owner& owner) : shard_(shard), owner_(owner) {}

  // wire::Wire
  void output_ready() override { mark(); }
  void tick_soon() override;
  void tick_next_turn() override;
  base::Time now() const override { return shard_.now(); }
  size_t undelivered() const override { return owner_.undelivered(); }

  // The owner's flush() is called at the end of this turn, or of the next.
  void mark();
  void mark_for_next_turn();
  bool marked() const { return marked_; }
  // From flush(). True: the codec wants its tick() first.
  bool begin_flush();
  // Nothing is asked of the loop from here on; what has been asked may still come.
  void close();

 private:
  Shard::Parts& shard_;
  Owner& owner_;
  base::TimerId timer_ = base::TimerId::kNone;
  bool marked_ = false, tick_wanted_ = false, closed_ = false;
};

}  // namespace weir::net
