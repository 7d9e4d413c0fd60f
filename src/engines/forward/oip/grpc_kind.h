// Kind oip-grpc: the Open Inference Protocol over gRPC, as Triton, KServe, OVMS and weir speak it.
#pragma once

#include <memory>

#include "engines/forward/kind.h"

namespace weir::forward {

std::shared_ptr<const Kind> make_oip_grpc();

}  // namespace weir::forward
