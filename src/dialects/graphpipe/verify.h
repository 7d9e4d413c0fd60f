// The check that comes before any access to a GraphPipe message.
//
// flatbuffers offsets may be shared: a few hundred kilobytes can denote terabytes of strings. So everything that a
// reader would visit is charged as often as it is referred to, and the sum has to stay within what a body may have.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/status.h"
#include "graphpipe_generated.h"

namespace weir::graphpipe {

namespace fb = ::graphpipe_fb;

inline constexpr uint32_t kMaxTables = 10'000;
inline constexpr uint32_t kMaxDepth = 32;

// The message, if all that is read of it lies inside `body`, whose start must be aligned to 4 bytes. Any field may
// still be null. Errors: INVALID_ARGUMENT; RESOURCE_EXHAUSTED when it denotes more than `budget` bytes.
base::Result<const fb::Request*> verify(const base::Bytes& body, uint64_t budget);

}  // namespace weir::graphpipe
