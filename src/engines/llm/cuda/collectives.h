// Collectives: sums and copies among devices that compute a model together, one rank on each. In the module they are
// NCCL's, which is opened with dlopen when the first such model is loaded; in the host's table the ranks' threads meet
// and the last one adds up.
//
// All ranks queue the same collectives in the same order, each from a thread of its own: a call may wait until the
// other ranks have made theirs. They can be captured into graphs, of all ranks or of none. Codes are as in kernels.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engines/llm/cuda/kernel_types.h"

namespace weir::llm::cuda {

// A rank's end of them. Its owner derives from it.
struct Communicator {};

struct Collectives {
  // Writes one for each of `ranks` devices; waits until they know each other. kNoLibrary: there is no libnccl.
  Code (*open)(const int32_t* devices, uint32_t ranks, Communicator** out);
  // When nothing is queued any more, or after abort(); either way when the graphs that have captured it are gone. What
  // was aborted and is not freed within some seconds, because a lost device keeps its graphs, is left as it is.
  Code (*close)(Communicator* communicator);
  // values[i] = the sum of the ranks' values[i]; all ranks get the same bits.
  Code (*all_reduce)(const Launch&, Communicator* communicator, float* values, size_t count);
  // values = those of the first rank.
  Code (*broadcast)(const Launch&, Communicator* communicator, float* values, size_t count);
  // An error that came after something was queued; 0: there is none.
  Code (*error)(Communicator* communicator);
  // Ends what is queued, with any values; what is queued from now on does nothing, but graphs must not be launched any
  // more. Any thread; for all ranks. Returns at once.
  void (*abort)(Communicator* communicator);
};

}  // namespace weir::llm::cuda
