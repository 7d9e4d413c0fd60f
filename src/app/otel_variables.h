// The environment variables of OpenTelemetry: OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER and
// the like. They come before the file and after weir's own variables.
#pragma once

#include <functional>
#include <vector>

#include "app/config.h"
#include "base/setting.h"

namespace weir::app {

// Sets the rows that the variables stand for. Returns an error for each that cannot be used. OTEL_TRACES_EXPORTER=none
// and OTEL_SDK_DISABLED=true make the endpoint mean nothing. OTEL_EXPORTER_OTLP_PROTOCOL with another value than
// http/protobuf is a warning in the log.
std::vector<base::Status> read_otel_variables(const std::vector<base::Setting>& rows,
                                              const std::function<const char*(const char*)>& environment,
                                              Config& config);

}  // namespace weir::app
