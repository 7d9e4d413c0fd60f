// /v2/systemsharedmemory/… and /v2/cudasharedmemory/…, as in Triton:
//
//   GET  …/status, …/region/{region}/status          a list of {"name","key","offset","byte_size"}, or {"name",
//                                                    "device_id","byte_size"}
//   POST …/region/{region}/register                  {"key","offset","byte_size"}; {"raw_handle":{"b64"},"device_id",
//                                                    "byte_size"}
//   POST …/unregister, …/region/{region}/unregister
#pragma once

#include "dialects/oip/rest.h"

namespace weir::oip {

void get_system_regions(OipState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void register_system_region(OipState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void unregister_system_regions(OipState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void get_cuda_regions(OipState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void register_cuda_region(OipState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void unregister_cuda_regions(OipState& state, wire::Exchange& exchange, const wire::PathArgs& args);

}  // namespace weir::oip
