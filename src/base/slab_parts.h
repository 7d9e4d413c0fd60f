// SlabParts: what a SlabSource with a budget offers besides whole slabs, so that memory goes to bytes that have come
// and not to lengths that somebody has announced.
//
// A body that needs a large slab, and whose peer still has to send it, takes a small part first, and the whole once the
// part is full. Whoever holds a part and waits for more could wait for others who do the same; so parts together never
// take more than a share of the budget, and the rest is always there for somebody to become whole, and to come to an
// end.
//
// How much a body of announced length gets, by what has come of it:
//
//   at its first byte    16 KiB, or its length where that is less
//   then, while it lasts 8 times what has come, or its length where that is up to 16 times as much
//   memory is scarce     twice what has come, or its length where that is up to 4 times as much
//   from 2 MiB on        its length, unless memory is scarce
//
// The bytes that have come are copied when the slab grows: each byte once more at most, since the last copy is of less
// than half of the body and each before it of half as much or less. Of a large body no more than 2.3 MiB are copied
// while memory is not scarce.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/bytes.h"

namespace weir::base {

class Client;

class SlabParts {
 public:
  // At the first byte of a body. A thousand announcements take 16 MiB.
  static constexpr uint64_t kFirst = uint64_t(16) << 10;
  // A body that has come so far gets the rest at once, unless memory is scarce.
  static constexpr uint64_t kPlenty = uint64_t(2) << 20;

  // A slab of at least `bytes`, of the share for parts; null when that is spent (a part that is alone may be larger).
  // Any thread.
  virtual Slab* take_part(size_t bytes) = 0;
  // So much is out that who holds memory for a slow peer keeps others waiting.
  virtual bool scarce() const = 0;
  // Charges the memory of `slab` to `client` until it comes back. It is a slab of this source that nobody shares yet.
  virtual void charge(Slab* /*slab*/, Client& /*client*/) {}

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
inline void charge(SlabSource& slabs, Slab* slab, Client* client) {
  if (!slab || !client) return;
  if (auto* parts = dynamic_cast<SlabParts*>(&slabs)) parts->charge(slab, *client);
}

// The slab for a body of `all` bytes of which `came` are there or at hand.
inline uint64_t grown(const SlabSource& slabs, uint64_t came, uint64_t all) {
  if (all <= SlabParts::kFirst || came >= all) return std::max(all, came);
  bool little = scarce(slabs);
  if (came > SlabParts::kPlenty && !little) return all;
  const uint64_t times = little ? 2 : 8;
  if (came > SlabParts::kFirst && all / 2 / times <= came) return all;
  return std::min(all, std::max(SlabParts::kFirst, came * times));
}

}  // namespace weir::base
