// The protocol's requests about shared memory, the same for REST and gRPC: what is asked, done to SharedRegions.
#pragma once

#include <string_view>

#include "base/status.h"
#include "dialects/oip/state.h"
#include "inference.pb.h"
#include "wire/exchange.h"

namespace weir::oip {

base::Status register_system(OipState& state, const wire::Request& request,
                             const inference::SystemSharedMemoryRegisterRequest& wanted);
// Errors: INVALID_ARGUMENT, in Triton's words, where there is no CUDA.
base::Status register_cuda(OipState& state, const wire::Request& request,
                           const inference::CudaSharedMemoryRegisterRequest& wanted);
// All regions of that kind, or the one of that name. Where the client may not share memory there are none.
base::Status unregister(OipState& state, const wire::Request& request, RegionKind kind, std::string_view name);
base::Result<inference::SystemSharedMemoryStatusResponse> system_status(OipState& state, const wire::Request& request,
                                                                        std::string_view name);
base::Result<inference::CudaSharedMemoryStatusResponse> cuda_status(OipState& state, const wire::Request& request,
                                                                    std::string_view name);

}  // namespace weir::oip
