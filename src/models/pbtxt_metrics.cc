#include "models/pbtxt_metrics.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "base/encoding.h"
#include "bus/response_stats.h"

namespace weir::models {
namespace {

constexpr const char* kFamily = "nv_inference_first_response_histogram_ms";

base::Status wrong(const std::string& what) { return base::invalid("model_metrics.metric_control: " + what); }

}  // namespace

base::Result<std::vector<double>> read_first_response_bounds(const inference::ModelMetrics& in,
                                                             std::vector<std::string>& notes) {
  std::vector<double> bounds;
  bool noted = false;
  for (const auto& control : in.metric_control()) {
    const std::string& family = control.metric_identifier().family();
    if (family != kFamily) {
      if (!std::exchange(noted, true))
        notes.push_back("model_metrics.metric_control.metric_identifier.family ('" +
                        std::string(base::cut_text(family, 100)) + "' has no buckets that could be chosen)");
      continue;
    }
    const auto& given = control.histogram_options().buckets();
    bounds.assign(given.begin(), given.end());
    if (bounds.empty()) return wrong("'buckets' of " + family + " names none");
    if (bounds.size() > bus::FirstResponses::kMostBounds)
      return wrong("'buckets' has " + std::to_string(bus::FirstResponses::kMostBounds) + " values at most");
    if (!std::all_of(bounds.begin(), bounds.end(), [](double b) { return std::isfinite(b); }) ||
        std::adjacent_find(bounds.begin(), bounds.end(), std::greater_equal<>()) != bounds.end())
      return wrong("'buckets' must be finite and ascending");
  }
  return bounds;
}

}  // namespace weir::models
