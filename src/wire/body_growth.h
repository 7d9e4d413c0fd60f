// How the slab of a body grows, so that memory goes to bytes that have come and not to lengths that somebody has
// announced.
//
// A body that needs a large slab, and whose peer still has to send it, takes a small part first
// (base::SlabSource::take_part()), and the whole once the part is full. How much a body of announced length gets, by
// what has come of it:
//
//   at its first byte    16 KiB, or its length where that is less
//   then, while it lasts 8 times what has come, or its length where that is up to 16 times as much
//   memory is scarce     twice what has come, or its length where that is up to 4 times as much
//   from 2 MiB on        its length, unless memory is scarce for wholes, too (base::SlabSource::scarce_for_wholes())
//
// The bytes that have come are copied when the slab grows: each byte once more at most, since the last copy is of less
// than half of the body and each before it of half as much or less. Of a large body no more than 2.3 MiB are copied
// while memory is not scarce.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/bytes.h"

namespace weir::wire {

// A body's first slab. A thousand announcements take 16 MiB.
inline constexpr uint64_t kFirstSlab = uint64_t(16) << 10;

// The size of the slab for a body of `all` bytes of which `came` are there or at hand.
inline uint64_t grown(const base::SlabSource& slabs, uint64_t came, uint64_t all) {
  if (all <= kFirstSlab || came >= all) return std::max(all, came);
  bool little = slabs.scarce();
  if (came > base::SlabSource::kPlenty && !slabs.scarce_for_wholes()) return all;
  const uint64_t times = little ? 2 : 8;
  if (came > kFirstSlab && all / 2 / times <= came) return all;
  return std::min(all, std::max(kFirstSlab, came * times));
}

}  // namespace weir::wire
