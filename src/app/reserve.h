// Reserve: address space that is kept back where it is limited (ulimit -v), for the small allocations without which the
// process cannot go on. Any thread.
#pragma once

namespace weir::app {

bool space_is_limited();
// Takes the reserve, if the address space is limited and it is not there. False: it is not, and cannot be had.
bool keep_reserve();
// Gives the reserve to the allocator; false when it has been used up.
bool use_reserve();

}  // namespace weir::app
