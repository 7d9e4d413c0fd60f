// The part of /metrics that a caller sees whose key names models: the series of these, and those of no model;
// not sums over all models (llama_cpp_metrics.cc), of which some are others'.
#pragma once

#include <string>
#include <string_view>

#include "base/model_scope.h"

namespace weir::ops {

// `series`: a name and its labels, as in Prometheus' text; what follows is not read.
bool in_scope(std::string_view series, const base::ModelScope& scope);

// The lines of a text of Prometheus' or OpenMetrics' form that are in the scope; comments all are.
std::string lines_in_scope(std::string_view text, const base::ModelScope& scope);

}  // namespace weir::ops
