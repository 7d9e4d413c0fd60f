// Kind oip-rest: the Open Inference Protocol over HTTP/1.1, for origins that have no gRPC, or proxies between that do
// not carry it. Models that answer once; tensors go as bytes both ways (Triton's binary tensor data extension), or as
// JSON where the origin does not list that among its extensions, as MLServer and KServe's own servers do not.
#pragma once

#include <memory>

#include "engines/forward/kind.h"

namespace weir::forward {

std::shared_ptr<const Kind> make_oip_rest(const Options& options);

}  // namespace weir::forward
