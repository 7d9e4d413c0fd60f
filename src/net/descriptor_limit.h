// within_descriptors(): how many connections a process may have.
#pragma once

#include <cstddef>

namespace weir::net {

// Lets this process have as many file descriptors as the system allows it. As many of the `wanted` connections as half
// of them, for the other half is for models' files, fetches, other connections' origins and those that are being
// closed.
size_t within_descriptors(size_t wanted);

}  // namespace weir::net
