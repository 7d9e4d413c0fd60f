#include "models/further_names.h"

#include <utility>

#include "base/log.h"

namespace weir::models {
namespace {

// A name that a model keeps as its own.
bool is_own(const std::string& name, const FurtherNames::Models& models) {
  const auto found = models.find(name);
  return found != models.end() && !found->second.yields;
}

}  // namespace

const FurtherNames::Owners& FurtherNames::settle(const Models& models) {
  Owners next;
  // The lower goes first.
  const auto rank = [&](const std::string& name, std::string_view model) {
    const auto& its = models.at(model);
    const auto last = owners_.find(name);
    return std::pair(!its.serves && !its.coming, last == owners_.end() || last->second != model);
  };
  for (const auto& [model, its] : models)
    for (const auto& name : its.names) {
      if (is_own(name, models)) continue;
      auto [at, fresh] = next.try_emplace(name, model);
      if (!fresh && rank(name, model) < rank(name, at->second)) at->second = model;
    }
  owners_ = std::move(next);
  log_conflicts(models);
  return owners_;
}

// A model that crashes and comes back is without the name all the time: that is one conflict.
void FurtherNames::log_conflicts(const Models& models) {
  std::set<Conflict> still;
  for (const auto& [model, its] : models)
    for (const auto& name : its.names) {
      const std::string& owner = is_own(name, models) ? name : owners_.at(name);
      if (owner == model) continue;
      Conflict conflict(model, name, owner);
      const bool logged = logged_.contains(conflict);
      if (!logged && its.serves)
        base::log::warning("model is served without one of its names, which another model has",
                           {{"model", model}, {"name", name}, {"owner", owner}});
      if (logged || its.serves) still.insert(std::move(conflict));
    }
  logged_ = std::move(still);
}

}  // namespace weir::models
