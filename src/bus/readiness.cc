#include "bus/readiness.h"

#include <algorithm>

#include "base/encoding.h"
#include "bus/load_notes.h"

namespace weir::bus {
namespace {

constexpr size_t kMostListed = 10, kLongestReason = 200;

bool counts(const IndexRow& row) { return row.state != ModelState::kUnloaded && row.state != ModelState::kUnloading; }

std::string cut(const std::string& reason) {
  if (reason.size() <= kLongestReason) return reason;
  return std::string(base::cut_text(reason, kLongestReason)) + "…";
}

// Empty: the model says that it is ready, or is not asked.
std::string why_not_itself(const Served& served, std::string_view name, std::string_view version,
                           const SaidReadiness* said) {
  if (!said || !readiness_probe(served)) return {};
  const auto model = said->find(name);
  if (model == said->end()) return "it has not said yet whether it is ready";
  const auto own = model->second.find(version);
  return own == model->second.end() ? model->second.begin()->second : own->second;
}

// Empty: it is ready.
std::string why_not(const Catalog& catalog, const IndexRow& row, const SaidReadiness* said) {
  if (row.state == ModelState::kLoading) return "it is loading";
  if (row.state != ModelState::kReady) return row.reason.empty() ? "it is not loaded" : row.reason;
  const auto model = catalog.models.find(row.name);
  if (!said || model == catalog.models.end()) return {};
  const auto served = model->second.versions.find(row.version);
  return served == model->second.versions.end() ? "" : why_not_itself(*served->second, row.name, row.version, said);
}

bool any_serves(const Catalog& catalog, const SaidReadiness* said) {
  return std::any_of(catalog.models.begin(), catalog.models.end(), [&](const auto& model) {
    const auto& versions = model.second.versions;
    return versions.empty() || std::any_of(versions.begin(), versions.end(), [&](const auto& version) {
             return why_not_itself(*version.second, model.first, version.first, said).empty();
           });
  });
}

}  // namespace

std::string why_model_not_ready(const Catalog& catalog, std::string_view model, const SaidReadiness* said) {
  const auto served = catalog.models.find(model);
  if (served == catalog.models.end()) return "it is not loaded";
  const Served* preferred = served->second.preferred;
  return preferred ? why_not_itself(*preferred, model, preferred->spec.version, said) : "";
}

std::string why_not_ready(const Catalog& catalog, ReadinessRule rule, const SaidReadiness* said) {
  if (rule == ReadinessRule::kProcess || (rule == ReadinessRule::kAny && any_serves(catalog, said))) return {};
  size_t counted = 0, missing = 0;
  std::string list;
  for (const IndexRow& row : catalog.index) {
    counted += counts(row) ? 1 : 0;
    const std::string why = counts(row) ? why_not(catalog, row, said) : "";
    if (why.empty() || ++missing > kMostListed) continue;
    list += (list.empty() ? ": '" : "; '") + row.name + "'" + (row.version.empty() ? "" : " version " + row.version) +
            ": " + cut(why);
  }
  if (missing > kMostListed) list += "; and " + std::to_string(missing - kMostListed) + " more";
  if (rule == ReadinessRule::kAny) return "no model serves" + list;
  if (missing == 0) return {};
  return std::to_string(missing) + " of " + std::to_string(counted) + (missing == 1 ? " models is" : " models are") +
         " not ready" + list;
}

}  // namespace weir::bus
