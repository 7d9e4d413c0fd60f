// Resident: something that lives on a shard, as its loop sees it: a connection, a listener, a fetch.
#pragma once

#include "net/weighted_queue.h"

namespace weir::net {

class Resident : public WeightedQueue<Resident>::Link {
 public:
  virtual ~Resident() = default;
  // The line in which it waits for its flush().
  virtual LoadClass load_class() const { return LoadClass::kLight; }
  // Writes what there is, once. Called once per mark().
  virtual void flush() = 0;
  // Called at the end of a turn for one that retire() was called for: it lets go of everything that is not its own.
  // Where many retire at once, that is a later turn for some of them; but none later than the end of a run_and_wait().
  virtual void release() = 0;
  // No operation of the loop refers to it any more: it may be freed.
  virtual bool at_rest() const = 0;
};

}  // namespace weir::net
