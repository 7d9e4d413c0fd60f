// The protocol's views of the catalog, as protobuf messages: gRPC serializes them, REST prints them (pb_json.h).
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"
#include "bus/catalog.h"
#include "inference.pb.h"

namespace weir::oip {

inference::ModelMetadataResponse metadata(const bus::Catalog& catalog, const bus::Served& served);
inference::ModelConfig config(const bus::Served& served);
// The statistics of one version, of all versions of a model ("" as version), or of all models ("" as model). Errors: as
// find().
base::Result<inference::ModelStatisticsResponse> statistics(const bus::Catalog& catalog, std::string_view model,
                                                            std::string_view version);
enum class Which : uint8_t { kAll, kReady };
inference::RepositoryIndexResponse index(const bus::Catalog& catalog, Which which);

}  // namespace weir::oip
