// OpenMetrics text 1.0 out of Prometheus text 0.0.4 (prometheus.io/docs/specs/om/open_metrics_spec).
#pragma once

#include <string>
#include <string_view>

namespace weir::base {

// The same families: the names of counters in HELP and TYPE lose their `_total`; counters whose samples have none, or
// whose name is then another family's, are of type `unknown`; bounds of buckets are floating-point numbers, and `# EOF`
// ends the text. Exemplars behind bucket samples stay as they are.
std::string open_metrics(std::string_view prometheus);

}  // namespace weir::base
