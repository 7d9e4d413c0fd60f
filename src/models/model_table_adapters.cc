// The names and the heirs of adapters that come while a model serves.
#include <algorithm>

#include "models/model_table.h"

namespace weir::models {

void ModelTable::Model::add_adapter_name(const std::string& name) {
  if (adapters.insert(name).second) names.push_back(name);
}

void ModelTable::Model::add_adapter_names(const Slot& slot) {
  for (const auto& [name, adapter] : slot.loaded.all) add_adapter_name(name);
}

void ModelTable::Model::drop_adapter_name(const std::string& name) {
  for (const auto& [version, slot] : versions)
    if (slot.loaded.all.contains(name) || (slot.served && slot.served->spec.adapters.contains(name))) return;
  adapters.erase(name);
  std::erase(names, name);
}

void ModelTable::Model::pass_on_adapters(uint64_t version) {
  auto& heir = versions[version];
  if (heir.served) return;
  for (const auto& [other, slot] : versions)
    for (const auto& [name, adapter] : slot.loaded.all) {
      if (other == version || !adapter.asked_for() || heir.loaded.all.contains(name)) continue;
      auto& mine = heir.loaded.all[name] = adapter;
      mine.keep.reset(), mine.source.number = heir.loaded.next++;
    }
}

}  // namespace weir::models
