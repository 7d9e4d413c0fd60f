// Blocks of memory for what connections have to write: a connection holds one only while something is in it. One that
// kept its block until it had been silent for two seconds made 8,000 of them that connect one after the other cost 4
// KiB each for good, since an allocator gives such memory back late or never.
#pragma once

#include <cstddef>

#include "base/bytes.h"

namespace weir::wire {

// A slab of the plain heap with room for `bytes`, and one reference: of those that this thread has given back last,
// where they are of that size. A thread keeps 32 of 4 KiB and of 16 KiB.
base::Slab* take_output_block(size_t bytes);
// Takes the one reference that the caller has; or nothing, where that is null.
void give_output_block(base::Slab* block);

}  // namespace weir::wire
