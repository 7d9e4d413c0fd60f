// The most that the loopback can bring: what a gateway's receiving is measured against.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::load {

// Bytes per second that `threads` connections carry together: a thread sends the same `bytes` over and over, another
// receives them into one buffer, which is what no server can do cheaper.
double loopback(uint32_t threads, size_t bytes, double seconds);

}  // namespace weir::load
