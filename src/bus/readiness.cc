#include "bus/readiness.h"

#include <algorithm>

#include "base/encoding.h"

namespace weir::bus {
namespace {

constexpr size_t kMostListed = 10, kLongestReason = 200;

bool counts(const IndexRow& row) { return row.state != ModelState::kUnloaded && row.state != ModelState::kUnloading; }

std::string reason_of(const IndexRow& row) {
  if (row.state == ModelState::kLoading) return "it is loading";
  if (row.reason.size() <= kLongestReason) return row.reason.empty() ? "it is not loaded" : row.reason;
  return std::string(base::cut_text(row.reason, kLongestReason)) + "…";
}

}  // namespace

std::string why_not_ready(const Catalog& catalog, ReadinessRule rule) {
  if (rule == ReadinessRule::kProcess || (rule == ReadinessRule::kAny && !catalog.models.empty())) return {};
  size_t counted = 0, missing = 0;
  std::string list;
  for (const IndexRow& row : catalog.index) {
    counted += counts(row) ? 1 : 0;
    if (!counts(row) || row.state == ModelState::kReady || ++missing > kMostListed) continue;
    list += (list.empty() ? ": '" : "; '") + row.name + "'" + (row.version.empty() ? "" : " version " + row.version) +
            ": " + reason_of(row);
  }
  if (missing > kMostListed) list += "; and " + std::to_string(missing - kMostListed) + " more";
  if (rule == ReadinessRule::kAny) return "no model serves" + list;
  if (missing == 0) return {};
  return std::to_string(missing) + " of " + std::to_string(counted) + (missing == 1 ? " models is" : " models are") +
         " not ready" + list;
}

}  // namespace weir::bus
