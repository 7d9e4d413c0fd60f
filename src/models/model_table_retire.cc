// How versions of a ModelTable leave service.
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "models/model_table.h"
#include "models/residence.h"

namespace weir::models {

using bus::ModelState;

void ModelTable::Slot::retire_adapters(const std::string& model, uint64_t version, std::vector<Retired>& to) {
  for (auto& adapter : adapters) to.push_back({model, version, std::move(adapter)});
  adapters.clear();
  loaded.leave_memory();
}

bool ModelTable::Slot::idle() const {
  return served->idle() && std::all_of(adapters.begin(), adapters.end(), [](const auto& a) { return a->idle(); });
}

void ModelTable::retire(const std::string& model, uint64_t version, Slot& slot) {
  slot.retire_adapters(model, version, retired_);
  if (slot.served && !slot.missing) {
    leaving_[model] += slot.bytes;
    retired_.push_back({model, version, std::move(slot.served), slot.bytes});
  }
  if (slot.missing && slot.stand_in) Residence::give_up(slot);
  if (slot.stand_in) retired_.push_back({model, version, std::move(slot.stand_in)});
  slot.served.reset(), slot.missing = false;
}

bool ModelTable::mark_failed(const Loader::Broken& broken, Next next) {
  auto found = models_.find(broken.model);
  if (found == models_.end()) return false;
  auto slot = found->second.versions.find(broken.version);
  if (slot == found->second.versions.end() || !slot->second.served || slot->second.served != broken.served.lock())
    return false;
  base::log::error("model broke", {{"model", broken.model}, {"version", broken.version}, {"reason", broken.why.text}});
  bool anew = next == Next::kLoadAnew;
  slot->second.reason = broken.why.text + (anew ? "; it is loaded anew" : "; whoever loaded it has to load it again");
  if (broken.serves_on && broken.serves_on()) {
    slot->second.fingerprint = 0;  // of no files, so that it is not what load() would make
    slot->second.reason += ", and its other instances serve on";
    return true;
  }
  retire(broken.model, broken.version, slot->second);
  slot->second.state = anew ? ModelState::kReturning : ModelState::kUnavailable;
  return true;
}

bool ModelTable::make_way(const std::string& name) {
  bool any = false;
  for (auto& [version, slot] : models_[name].versions) {
    if (!std::exchange(slot.in_the_way, false) || !slot.served) continue;
    base::log::warning("model version is unloaded: there is no memory for the next one beside it",
                       {{"model", name}, {"version", version}});
    retire(name, version, slot);
    slot.state = ModelState::kReturning, slot.reason = "its next version is loaded";
    any = true;
  }
  return any;
}

void ModelTable::unload(const std::string& name, Row row) {
  auto found = models_.find(name);
  if (found == models_.end()) return;
  auto& model = found->second;
  model.row = row;
  model.state = ModelState::kUnloaded, model.reason = "unloaded";
  model.upload.reset();
  bool served = false;
  for (auto& [version, slot] : model.versions) {
    slot.state = slot.served ? ModelState::kUnloading : ModelState::kUnloaded;
    slot.reason = slot.served ? "" : "unloaded";
    served = served || slot.served;
    slot.pipeline.reset(), slot.pending.reset();
    retire(name, version, slot);
  }
  if (served) base::log::info("model unloaded", {{"model", name}});
  if (!served && row == Row::kDrop) models_.erase(found);
}

void ModelTable::destroyed(const Retired& what, Left left) {
  if (auto bytes = leaving_.find(what.model); bytes != leaving_.end() && (bytes->second -= what.bytes) == 0)
    leaving_.erase(bytes);
  if (left == Left::kSome) return;
  const uint64_t version = what.version;
  auto found = models_.find(what.model);
  if (found == models_.end()) return;
  auto& model = found->second;
  if (auto slot = model.versions.find(version);
      slot != model.versions.end() && slot->second.state == ModelState::kUnloading) {
    slot->second.state = ModelState::kUnloaded;
    slot->second.reason = "unloaded";
  }
  bool leaving = std::any_of(model.versions.begin(), model.versions.end(),
                             [](const auto& s) { return s.second.state == ModelState::kUnloading; });
  if (model.row == Row::kDrop && !leaving) models_.erase(found);
}

}  // namespace weir::models
