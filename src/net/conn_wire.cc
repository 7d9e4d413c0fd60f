#include "net/conn_wire.h"

namespace weir::net {

void ConnWire::tick_soon() {
  tick_wanted_ = true;
  mark();
}

// The clock stands still within a turn: what is due later than now is not due in this one.
void ConnWire::tick_next_turn() {
  if (timer_ != base::TimerId::kNone || closed_) return;
  timer_ = shard_.at(shard_.now() + base::Duration(1), [this] {
    timer_ = base::TimerId::kNone;
    owner_.resume();
  });
}

void ConnWire::mark() {
  if (marked_ || closed_) return;
  marked_ = true;
  shard_.mark(owner_);
}

void ConnWire::mark_for_next_turn() {
  if (marked_) return;
  marked_ = true;
  shard_.mark_for_next_turn(owner_);
}

bool ConnWire::begin_flush() {
  marked_ = false;
  return std::exchange(tick_wanted_, false);
}

void ConnWire::close() {
  closed_ = true;
  shard_.cancel(std::exchange(timer_, base::TimerId::kNone));
}

}  // namespace weir::net
