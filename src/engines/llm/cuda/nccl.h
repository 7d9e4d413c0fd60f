// NCCL as the collectives of the module's table. It is opened with dlopen when the first model on several devices is
// loaded: nobody else needs it, and the module loads without it.
#pragma once

#include "engines/llm/cuda/collectives.h"

namespace weir::llm::cuda {

// In the emulator: the host's.
Code open_communicators(const int32_t* devices, uint32_t ranks, Communicator** out);
Code close_communicator(Communicator* communicator);
Code all_reduce(const Launch& launch, Communicator* communicator, float* values, size_t count);
Code broadcast(const Launch& launch, Communicator* communicator, float* values, size_t count);
Code communicator_error(Communicator* communicator);
void abort_communicator(Communicator* communicator);

}  // namespace weir::llm::cuda
