#include "models/adapter_table.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/log.h"
#include "models/adapter_models.h"

namespace weir::models {
namespace {

// Loaded ones of one version: each takes memory, and a row of each list.
constexpr size_t kMostLoaded = 256;

base::Status is_not_serving(const std::string& model) {
  return base::try_again(base::Code::kUnavailable, "model '" + model + "' is not loaded, or was replaced meanwhile");
}

}  // namespace

const std::string* AdapterTable::owner(const std::string& adapter) const {
  const auto own = table_.models_.find(adapter);
  if (own != table_.models_.end() && (own->second.has_folder || table_.serves(adapter))) return nullptr;
  for (const auto& [name, model] : table_.models_)
    for (const auto& [version, slot] : model.versions)
      if (slot.loaded.all.contains(adapter)) return &name;
  return nullptr;
}

const std::string* AdapterTable::model_named(const std::string& name) const {
  if (auto own = table_.models_.find(name); own != table_.models_.end()) return &own->first;
  for (const auto& [own, model] : table_.models_)
    if (std::count(model.names.begin(), model.names.end(), name) > 0) return &own;
  return nullptr;
}

base::Result<std::string> AdapterTable::usual_model(const std::string& usual) const {
  std::vector<std::string> able;
  for (const auto& [name, model] : table_.models_)
    if (std::any_of(model.versions.begin(), model.versions.end(),
                    [](const auto& v) { return v.second.served && v.second.served->adapters; }))
      able.push_back(name);
  if (const auto* model = usual.empty() ? nullptr : model_named(usual);
      model && std::count(able.begin(), able.end(), *model) > 0)
    return *model;
  if (able.size() == 1) return able.front();
  return base::invalid(able.empty() ? "no model here takes adapters: those that make tokens on the CPU do"
                                    : "several models take adapters: 'base_model_name' must say which is meant");
}

ModelTable::Slot* AdapterTable::slot(const std::string& model, uint64_t version) {
  const auto found = table_.models_.find(model);
  if (found == table_.models_.end()) return nullptr;
  const auto at = found->second.versions.find(version);
  return at == found->second.versions.end() ? nullptr : &at->second;
}

base::Status AdapterTable::may_have(const std::string& model, const std::string& adapter, Former former) const {
  const auto found = table_.models_.find(model);
  if (found == table_.models_.end())
    return base::failure(base::Code::kNotFound, "there is no model '" + model + "' for the adapter");
  const auto taken =
      base::failure(base::Code::kAlreadyExists, "the name '" + adapter + "' is that of a model, or of an adapter");
  const auto* has = model_named(adapter);
  const bool its = has && *has == model && owner(adapter);
  if (has && (!its || former == Former::kKeep)) return taken;
  bool serves = false;
  for (const auto& [version, slot] : found->second.versions) {
    const auto loaded = slot.loaded.all.find(adapter);
    if (loaded != slot.loaded.all.end() && !loaded->second.asked_for()) return taken;
    if (loaded == slot.loaded.all.end() && slot.loaded.all.size() >= kMostLoaded)
      return base::failure(base::Code::kResourceExhausted, "model '" + model + "' has " + std::to_string(kMostLoaded) +
                                                               " adapters, the most that it can");
    serves = serves || (slot.served && !slot.missing);
  }
  return serves ? base::Status() : is_not_serving(model);
}

base::Status AdapterTable::read(const std::string& model, uint64_t version, LoadedAdapter& adapter) {
  ModelTable::Slot* into = slot(model, version);
  if (!into || !into->served || into->missing) return is_not_serving(model);
  adapter.source.number = into->loaded.next++;
  const auto served = into->served;
  auto status = [&] {
    const RepositoryLock::Unlocked unlocked(table_.lock_);
    return load_into(*served, adapter);
  }();
  if (!status.ok()) return status;
  into = slot(model, version);
  return into && into->served == served ? status : is_not_serving(model);
}

// In the place of the former of that name.
void AdapterTable::put(const std::string& model, uint64_t version, LoadedAdapter adapter) {
  ModelTable::Slot& into = *slot(model, version);
  const std::string name = adapter.source.name;
  take(model, version, name);
  into.bytes += adapter.bytes;
  if (!into.adapters.empty() && adapter.reason.empty()) into.adapters.push_back(adapter_model(into.served, adapter));
  into.loaded.all[name] = std::move(adapter);
  table_.models_.at(model).add_adapter_name(name);
}

void AdapterTable::take(const std::string& model, uint64_t version, const std::string& adapter) {
  ModelTable::Slot* from = slot(model, version);
  const auto at = from ? from->loaded.all.find(adapter) : decltype(from->loaded.all.end())();
  if (!from || at == from->loaded.all.end()) return;
  const uint64_t bytes = at->second.keep ? std::min(from->bytes, at->second.bytes) : 0;
  from->bytes -= bytes;
  drop_served(model, version, adapter, bytes);
  from->loaded.all.erase(at);
}

// It leaves memory when the last Call inside has ended.
void AdapterTable::drop_served(const std::string& model, uint64_t version, const std::string& adapter, uint64_t bytes) {
  auto& served = slot(model, version)->adapters;
  const auto at = std::find_if(served.begin(), served.end(), [&](const auto& s) { return s->spec.name == adapter; });
  if (at == served.end()) return;
  if (bytes > 0) table_.leaving_[model] += bytes;
  table_.retired_.push_back({model, version, std::move(*at), bytes});
  served.erase(at);
}

base::Status AdapterTable::load(const std::string& model, const std::string& adapter,
                                const msg::AdapterLoader::Source& source, const std::string& root, Former former) {
  if (auto s = may_have(model, adapter, former); !s.ok()) return s;
  std::vector<uint64_t> versions;
  for (const auto& [version, slot] : table_.models_.at(model).versions)
    if (slot.served && !slot.missing) versions.push_back(version);
  std::vector<LoadedAdapter> loaded;
  for (uint64_t version : versions) {
    auto& one = loaded.emplace_back(LoadedAdapter{source, root});
    one.source.name = adapter;
    if (auto s = read(model, version, one); !s.ok()) return s;
  }
  if (auto s = may_have(model, adapter, former); !s.ok()) return s;  // loads beside this one may have taken the name
  for (size_t i = 0; i < versions.size(); ++i) {
    const auto* into = slot(model, versions[i]);
    if (!into || !into->served || into->missing) return is_not_serving(model);
  }
  for (size_t i = 0; i < versions.size(); ++i) put(model, versions[i], std::move(loaded[i]));
  return {};
}

base::Status AdapterTable::unload(const std::string& model, const std::string& adapter) {
  const auto found = table_.models_.find(model);
  bool any = false;
  if (found != table_.models_.end())
    for (auto& [version, slot] : found->second.versions) {
      const auto at = slot.loaded.all.find(adapter);
      if (at == slot.loaded.all.end()) continue;
      if (!at->second.asked_for())
        return base::failure(base::Code::kFailedPrecondition, "the adapter lies in the folder of model '" + model +
                                                                  "': it is unloaded when it goes there");
      any = true;
      take(model, version, adapter);
    }
  if (!any) return base::failure(base::Code::kNotFound, "there is no adapter '" + adapter + "'");
  found->second.drop_adapter_name(adapter);
  return {};
}

// Files that are broken take down nothing that serves. They are looked at again when they have changed.
bool AdapterTable::former_serves_on(const std::string& model, uint64_t version, const LoadedAdapter& broken) {
  ModelTable::Slot* in = slot(model, version);
  const auto at = in ? in->loaded.all.find(broken.source.name) : decltype(in->loaded.all.end())();
  if (!in || at == in->loaded.all.end() || !at->second.keep) return false;
  at->second.fingerprint = broken.fingerprint;
  return true;
}

void AdapterTable::sync(const std::string& model, uint64_t version,
                        const std::map<std::string, LoadedAdapter>& in_folder) {
  std::vector<std::string> gone;
  std::vector<LoadedAdapter> fresh;
  ModelTable::Slot& now = *slot(model, version);
  for (const auto& [name, adapter] : now.loaded.all)
    if (!adapter.asked_for() && !in_folder.contains(name)) gone.push_back(name);
  for (const auto& [name, adapter] : in_folder) {
    const auto had = now.loaded.all.find(name);
    const bool same = had != now.loaded.all.end() && had->second.fingerprint == adapter.fingerprint;
    const auto* has = model_named(name);
    const bool anothers = has && (*has != model || had == now.loaded.all.end() || had->second.asked_for());
    if (anothers)
      base::log::warning("adapter is not loaded: its name is another's", {{"model", model}, {"adapter", name}});
    if (!same && !anothers) fresh.push_back(adapter);
  }
  for (const auto& name : gone) {
    take(model, version, name);
    table_.models_.at(model).drop_adapter_name(name);
  }
  for (auto& adapter : fresh) {
    const auto status = read(model, version, adapter);
    if (!status.ok()) {
      base::log::warning("adapter failed to load",
                         {{"model", model}, {"adapter", adapter.source.name}, {"reason", status.text}});
      if (former_serves_on(model, version, adapter)) continue;
      adapter.keep.reset(), adapter.bytes = 0, adapter.reason = status.text;
    }
    if (const auto* into = slot(model, version); !into || !into->served || into->missing) return;
    put(model, version, std::move(adapter));
  }
}

}  // namespace weir::models
