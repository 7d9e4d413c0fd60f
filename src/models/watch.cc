#include "models/watch.h"

namespace weir::models {

Watch::Changes Watch::compare(const Fingerprints& now, Settle settle) {
  Changes changes;
  for (const auto& [model, fingerprint] : now) {
    auto taken = taken_.find(model);
    const bool again = settle == Settle::kNo && failed_.contains(model);
    if (taken != taken_.end() && taken->second == fingerprint && !again) continue;
    auto before = before_.find(model);
    bool rests = before != before_.end() && before->second == fingerprint;
    if (rests || settle == Settle::kNo) changes.changed.push_back(model);
  }
  for (const auto& [model, fingerprint] : taken_)
    if (!now.count(model) && (settle == Settle::kNo || !before_.count(model))) changes.gone.push_back(model);
  before_ = now;
  return changes;
}

}  // namespace weir::models
