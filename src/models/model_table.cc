#include "models/model_table.h"

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "base/encoding.h"
#include "base/log.h"
#include "bus/batching_text.h"
#include "models/adapter_models.h"
#include "models/adapter_table.h"
#include "models/estimate.h"
#include "models/memory_use.h"
#include "models/residence.h"

namespace weir::models {
namespace {

using bus::ModelState;

constexpr size_t kLongestReason = 1000;

// An engine's error about a model's files, as every protocol can pass it on.
base::Status presentable(base::Status status) {
  status.text = base::presentable(status.text, kLongestReason);
  return status;
}

// Others have the memory that a version lacks.
bool lacks_memory(const base::Status& why) {
  return why.code == base::Code::kResourceExhausted && base::worth_trying_again(why);
}

// Sessions know their model by its TextSpec: that stays while the model is away. Nobody calls the new one yet.
void keep_text(const msg::ModelSpec& before, msg::ModelSpec& loaded) {
  const bool same = before.text && loaded.text && before.text->max_length == loaded.text->max_length;
  if (same) loaded.text = before.text;
}

// A configuration that comes with a load request replaces the folder's own, but for the adapters, of which it can say
// nothing.
base::Result<ModelConfig> configure(RepositoryLock& lock, const ModelFolder& folder, const Loader& loader,
                                    const Upload* upload) {
  if (upload && !upload->root().empty()) return upload->config();
  const RepositoryLock::Unlocked unlocked(lock);
  auto own = loader.configure(folder);
  if (!upload) return own;
  ModelConfig config = upload->config();
  if (!own || config.engine == kPipeline || !config.origins.empty()) return config;
  config.adapters = std::move(own->adapters), config.adapters_folder = std::move(own->adapters_folder);
  return config;
}

// Where nobody else knows of it the engine's threads end first, which takes as long as it takes.
void destroy(RepositoryLock& lock, std::shared_ptr<bus::Served> served) {
  const RepositoryLock::Unlocked unlocked(lock);
  served.reset();
}

void log_loaded(const bus::Served& served, const ModelConfig& config, std::chrono::steady_clock::time_point began) {
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  base::log::info("model loaded", {{"model", served.spec.name},
                                   {"version", served.spec.version},
                                   {"engine", served.spec.engine},
                                   {"max_batch", served.spec.max_batch},
                                   {"batches", bus::batching_text(served.spec, config.max_batch.has_value())},
                                   {"seconds", took.count()}});
}

std::string serving_on(const std::string& reason) {
  return "the reload failed, what was loaded before serves on: " + reason;
}

}  // namespace

void ModelTable::register_model(const std::string& model, const ModelConfig* config) {
  auto [at, fresh] = models_.try_emplace(model);
  if (fresh) at->second.state = ModelState::kUnloaded, at->second.reason = "not loaded";
  at->second.has_folder = true;
  if (config && !serves(model)) at->second.take_names(*config);
}

void ModelTable::mark_loading(const std::string& name) {
  auto& model = models_[name];
  model.row = Row::kKeep;
  if (model.versions.empty()) model.state = ModelState::kLoading, model.reason.clear();
  for (auto& [version, slot] : model.versions)
    if (!slot.served) slot.state = ModelState::kLoading, slot.reason.clear();
}

void ModelTable::fail(const std::string& name, const std::string& reason) {
  auto& model = models_[name];
  base::log::warning("model failed to load", {{"model", name}, {"reason", reason}});
  model.state = ModelState::kUnavailable, model.reason = reason;
  for (auto& [version, slot] : model.versions) {
    slot.reason = slot.served ? serving_on(reason) : reason;
    if (!slot.served) slot.state = ModelState::kUnavailable;
  }
}

base::Status ModelTable::load(const ModelFolder& folder, const Loader& loader, std::unique_ptr<Upload>& upload,
                              Into into) {
  models_[folder.name].row = Row::kKeep;  // it may have been on its way out
  models_[folder.name].skipped = folder.skipped;
  if (!upload || upload->root().empty()) models_[folder.name].has_folder = true;
  auto config = configure(lock_, folder, loader, upload.get());
  if (!config) {
    auto why = presentable(config.error());
    fail(folder.name, why.text);
    return why;
  }
  for (const auto& note : config->notes)
    base::log::info("model configuration: field has no effect here", {{"model", folder.name}, {"field", note}});
  auto& model = models_[folder.name];
  // Another configuration means other versions, though no file has changed.
  if (upload || model.upload)
    for (auto& [version, slot] : model.versions) slot.fingerprint = 0;
  if (!serves(folder.name)) model.take_names(*config);
  auto status = load_versions(folder, *config, loader, model, upload ? Into::kMemory : into);
  // One that serves keeps its names until a version serves by the new configuration, which is part of a fingerprint.
  if (std::any_of(model.versions.begin(), model.versions.end(), [&](const auto& v) {
        return v.second.served && v.second.fingerprint == fingerprint_without_adapters(folder, *config, v.first);
      }))
    model.take_names(*config);
  if (status.ok()) model.upload = std::move(upload);
  if (upload)  // whoever sent it sends it again: without its files it could not be built later
    for (auto& [version, slot] : model.versions) slot.pending.reset();
  return status;
}

base::Status ModelTable::load_versions(const ModelFolder& folder, const ModelConfig& config, const Loader& loader,
                                       Model& model, Into into) {
  auto versions = loader.versions(folder, config);
  if (!versions) {
    fail(folder.name, versions.error().text);
    return versions.error();
  }
  base::Status first;
  for (uint64_t v : *versions) {
    model.pass_on_adapters(v);
    auto status = load_version(folder, config, loader, v, model.versions[v], into);
    model.add_adapter_names(model.versions[v]);
    if (!status.ok() && first.ok()) first = std::move(status);
  }
  for (auto at = model.versions.begin(); at != model.versions.end();) {
    bool named = std::binary_search(versions->begin(), versions->end(), at->first);
    bool leaves = !named && (first.ok() || !at->second.served);
    if (leaves) retire(folder.name, at->first, at->second);
    at->second.in_the_way = at->second.in_the_way || (!named && lacks_memory(first));
    at = leaves ? model.versions.erase(at) : std::next(at);
  }
  return first;
}

base::Status ModelTable::load_version(const ModelFolder& folder, const ModelConfig& config, const Loader& loader,
                                      uint64_t version, Slot& slot, Into into) {
  uint64_t fingerprint = fingerprint_without_adapters(folder, config, version);
  slot.pending.reset();
  if (slot.served && slot.fingerprint == fingerprint && (!slot.missing || into == Into::kReserve)) {
    if (!slot.missing)
      slot.reason.clear(), AdapterTable(*this).sync(folder.name, version, adapters_in(folder, config, version));
    return {};
  }
  if (!slot.served) slot.state = ModelState::kLoading, slot.reason.clear();
  auto began = std::chrono::steady_clock::now();
  auto served = build(folder, config, loader, version, slot);
  uint64_t bytes = served ? estimated_bytes(folder, config, version, (*served)->spec) + adapter_bytes(**served) : 0;
  if (auto may = served && residence_ ? residence_->may_arrive(slot, bytes, loader) : base::Status{}; !may.ok()) {
    destroy(lock_, *std::move(served));
    served = may;
  }
  if (!served) {
    auto why = presentable(served.error());
    base::log::warning("model failed to load", {{"model", folder.name}, {"version", version}, {"reason", why.text}});
    slot.load_failed(why);
    return why;
  }
  auto loaded = load_again(lock_, slot.loaded, adapters_in(folder, config, version), **served);
  auto stand_in = slot.fingerprint == fingerprint ? slot.stand_in : nullptr;
  if (stand_in) keep_text(stand_in->spec, (*served)->spec);
  Slot before = std::exchange(slot, Slot{ModelState::kReady, "", std::move(*served), fingerprint,
                                         std::move(slot.pending), nullptr, std::move(stand_in)});
  slot.bytes = bytes + loaded.bytes(), slot.loaded_ms = base::unix_ms(), slot.loaded = std::move(loaded);
  if (residence_) residence_->arrived(before, slot);
  if (before.stand_in == slot.stand_in) before.stand_in.reset();
  retire(folder.name, version, before);
  log_loaded(*slot.served, config, began);
  if (into == Into::kReserve && residence_) {
    auto made = slot.served;
    residence_->reserve(slot);
    destroy(lock_, std::move(made));
  }
  return {};
}

void ModelTable::Slot::load_failed(const base::Status& why) {
  in_the_way = served && !missing && lacks_memory(why);
  reason = served && !missing ? serving_on(why.text) : why.text;
  if (!served) state = base::worth_trying_again(why) ? ModelState::kReturning : ModelState::kUnavailable;
}

base::Result<std::shared_ptr<bus::Served>> ModelTable::build(const ModelFolder& folder, const ModelConfig& config,
                                                             const Loader& loader, uint64_t version, Slot& slot) {
  if (config.engine != kPipeline) {
    auto served = [&] {
      const RepositoryLock::Unlocked unlocked(lock_);
      return loader.load(folder, config, version);
    }();
    if (served) slot.pending.reset();  // a pipeline in the slot may have lost a node meanwhile
    return served;
  }
  for (const auto& node : config.dag.nodes) {
    std::set<std::string> seen;
    if (node.model == folder.name || contains(node.model, folder.name, seen))
      return base::invalid("node '" + node.name + "': the pipeline would be a part of itself");
  }
  slot.pending = std::make_unique<Pipeline>(Pipeline{folder, config, {}});
  if (auto nodes = nodes_of(*slot.pending)) slot.pending->nodes = std::move(*nodes);
  return build_pipeline(*slot.pending, loader, version);
}

const ModelTable::Slot* ModelTable::serving(const std::string& model, const std::string& version) const {
  auto found = models_.find(model);
  const Slot* newest = nullptr;
  if (found != models_.end())
    for (const auto& [number, slot] : found->second.versions)  // ascending
      if (slot.served && (version.empty() || std::to_string(number) == version)) newest = &slot;
  return newest;
}

// Looks among the models that serve now. The error is worth another try when the model will serve soon.
base::Result<std::shared_ptr<bus::Served>> ModelTable::find(const std::string& name, const std::string& version) const {
  auto found = models_.find(name);
  std::shared_ptr<bus::Served> served;
  std::string reason;
  bool coming = false;
  if (found != models_.end()) {
    reason = found->second.reason;
    coming = found->second.versions.empty() && bus::may_become_ready(found->second.state);
    for (const auto& [number, slot] : found->second.versions) {  // ascending
      if (!version.empty() && std::to_string(number) != version) continue;
      if (slot.served) served = slot.stand_in ? slot.stand_in : slot.served;
      coming = coming || bus::may_become_ready(slot.state);
      if (!slot.reason.empty()) reason = slot.reason;
    }
  }
  if (served) return served;
  std::string who = "model '" + name + "'" + (version.empty() ? "" : " version " + version);
  if (found == models_.end()) return base::failure(base::Code::kNotFound, "there is no " + who);
  std::string text = who + " is not loaded" + (reason.empty() ? "" : ": " + reason);
  return coming ? base::try_again(base::Code::kUnavailable, text) : base::failure(base::Code::kUnavailable, text);
}

bool ModelTable::serves(const std::string& name, Serves what) const {
  auto found = models_.find(name);
  if (found == models_.end()) return false;
  const auto& versions = found->second.versions;
  const bool some = std::any_of(versions.begin(), versions.end(), [](const auto& s) { return s.second.served; });
  if (what == Serves::kSome) return some;
  return some && std::all_of(versions.begin(), versions.end(),
                             [](const auto& s) { return s.second.served && s.second.reason.empty(); });
}

const Upload* ModelTable::uploaded(const std::string& name) const {
  auto found = models_.find(name);
  return found == models_.end() ? nullptr : found->second.upload.get();
}

std::vector<std::string> ModelTable::names() const {
  std::vector<std::string> out;
  for (const auto& [name, model] : models_) out.push_back(name);
  return out;
}

void ModelTable::Model::take_names(const ModelConfig& config) {
  names = config.names;
  adapters.clear();
  for (const auto& [name, path] : config.adapters) add_adapter_name(name);
  for (const auto& [version, slot] : versions) add_adapter_names(slot);
}

void ModelTable::Model::list_adapter(const std::string& name, const std::string& own, bus::Catalog& catalog) const {
  if (versions.empty()) catalog.index.push_back({name, "", state, reason, own});
  for (const auto& [version, slot] : versions) {
    const auto loaded = slot.loaded.all.find(name);
    const bool fails = slot.served && loaded != slot.loaded.all.end() && !loaded->second.reason.empty();
    catalog.index.push_back({name, std::to_string(version), fails ? ModelState::kUnavailable : slot.state,
                             fails ? loaded->second.reason : slot.reason, own});
    for (const auto& served : slot.adapters) {
      if (served->spec.name != name) continue;
      auto& row = catalog.models[name];
      row.versions[std::to_string(version)] = served;
      row.preferred = served.get();
    }
  }
}

std::shared_ptr<const bus::Catalog> ModelTable::catalog(const std::string& default_model) {
  auto catalog = std::make_shared<bus::Catalog>();
  catalog->default_model = default_model;
  FurtherNames::Models named;
  for (auto& [name, model] : models_) {
    auto& its = named[name];
    its.names = model.names, its.serves = serves(name),
    its.coming = model.versions.empty() && bus::may_become_ready(model.state);
    if (model.versions.empty()) catalog->index.push_back({name, "", model.state, model.reason});
    for (auto& [version, slot] : model.versions) {
      if (slot.served && slot.adapters.empty()) slot.adapters = adapter_models(slot.served, slot.loaded);
      its.coming = its.coming || bus::may_become_ready(slot.state);
      catalog->index.push_back({name, std::to_string(version), slot.state, slot.reason});
      if (!slot.served) continue;
      auto& row = catalog->models[name];
      row.versions[std::to_string(version)] = slot.served;
      row.preferred = slot.served.get();  // versions ascend
    }
    its.yields = !model.has_folder && !its.serves && !its.coming;
    for (const auto& [entry, why] : model.skipped) catalog->index.push_back({name, entry, ModelState::kUnloaded, why});
  }
  for (const auto& [name, owner] : further_names_.settle(named)) {
    const Model& model = models_.at(owner);
    if (models_.contains(name))
      std::erase_if(catalog->index, [&taken = name](const bus::IndexRow& row) { return row.name == taken; });
    if (model.adapters.contains(name))
      model.list_adapter(name, owner, *catalog);
    else
      catalog->names.emplace(name, owner);
  }
  for (const auto& [name, why] : skipped_) catalog->index.push_back({name, "", ModelState::kUnloaded, why});
  std::stable_sort(catalog->index.begin(), catalog->index.end(),
                   [](const bus::IndexRow& a, const bus::IndexRow& b) { return a.name < b.name; });
  return catalog;
}

}  // namespace weir::models
