// SlabParts: what a SlabSource with a budget offers besides whole slabs, so that memory goes to bytes that have come
// and not to lengths that somebody has announced.
//
// Who needs a large slab for what a peer still has to send takes a small part first, and the whole once the part is
// full. Whoever holds a part and waits for more could wait for others who do the same; so parts together never take
// more than a share of the budget, and the rest is always there for somebody to become whole, and to come to an end.
#pragma once

#include "base/bytes.h"

namespace weir::base {

class SlabParts {
 public:
  // The part to begin with. Large enough that what most calls carry comes without being copied once more, small enough
  // that a thousand announcements are no more than a budget.
  static constexpr size_t kFirst = size_t(2) << 20;

  // A slab of at least `bytes`, of the share for parts; null when that is spent (a part that is alone may be larger).
  // Any thread.
  virtual Slab* take_part(size_t bytes) = 0;
  // So much is out that who holds memory for a slow peer keeps others waiting.
  virtual bool scarce() const = 0;

 protected:
  ~SlabParts() = default;
};

// From a source without a budget a part is a slab like any other, and nothing is ever scarce.
inline Slab* take_part(SlabSource& slabs, size_t bytes) {
  auto* parts = dynamic_cast<SlabParts*>(&slabs);
  return parts ? parts->take_part(bytes) : slabs.take(bytes);
}
inline bool scarce(const SlabSource& slabs) {
  auto* parts = dynamic_cast<const SlabParts*>(&slabs);
  return parts && parts->scarce();
}

}  // namespace weir::base
