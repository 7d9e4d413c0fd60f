// The pipelines of a ModelTable, and the models that are their nodes.
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "models/model_table.h"

namespace weir::models {

using bus::ModelState;

// Each pipeline that runs another one twice doubles what one request costs, so it is the product that has a limit.
base::Result<std::shared_ptr<bus::Served>> ModelTable::build_pipeline(Pipeline& from, const Loader& loader,
                                                                      uint64_t version) const {
  uint64_t sum = 1;
  for (const auto& node : from.config.dag.nodes)
    if (const Slot* slot = serving(node.model, node.version)) sum += slot->pipeline ? slot->pipeline->executions : 1;
  if (sum > kMostExecutions)
    return base::invalid("one request would execute " + std::to_string(sum) +
                         " models and pipelines, those inside its nodes included: at most " +
                         std::to_string(kMostExecutions) + " are possible");
  auto served = loader.load_pipeline(from.folder, from.config, version,
                                     [this](const auto& m, const auto& v) { return find(m, v); });
  if (served) from.executions = uint32_t(sum);
  return served;
}

// Whether `node` is somewhere in the pipeline `model`.
bool ModelTable::contains(const std::string& model, const std::string& node, std::set<std::string>& seen) const {
  auto found = models_.find(model);
  if (found == models_.end() || !seen.insert(model).second) return false;
  for (const auto& [version, slot] : found->second.versions)
    for (const auto& n : slot.nodes())
      if (n == node || contains(n, node, seen)) return true;
  return false;
}

std::set<std::string> ModelTable::Slot::nodes() const {
  std::set<std::string> out;
  for (const Pipeline* any : {pipeline.get(), pending.get()})
    if (any)
      for (const auto& node : any->config.dag.nodes) out.insert(node.model);
  return out;
}

std::set<std::string> ModelTable::nodes(const std::string& model) const {
  std::set<std::string> out;
  if (auto found = models_.find(model); found != models_.end())
    for (const auto& [version, slot] : found->second.versions) out.merge(slot.nodes());
  return out;
}

bool ModelTable::is_node(const std::string& model) const {
  return std::any_of(models_.begin(), models_.end(), [&](const auto& m) { return nodes(m.first).contains(model); });
}

base::Result<std::vector<const bus::Served*>> ModelTable::nodes_of(const Pipeline& pipeline) const {
  std::vector<const bus::Served*> nodes;
  for (const auto& node : pipeline.config.dag.nodes) {
    auto served = find(node.model, node.version);
    if (!served) {
      const auto& why = served.error();
      std::string text = "node '" + node.name + "': " + why.text;
      return base::worth_trying_again(why) ? base::try_again(why.code, text) : base::failure(why.code, text);
    }
    nodes.push_back(served->get());
  }
  return nodes;
}

// A pipeline may be a node of another: what one round rebuilds the next one passes on. No pipeline contains itself, so
// there is an end.
void ModelTable::relink(const Loader& loader) {
  for (bool changed = true; changed;) {
    changed = false;
    for (auto& [name, model] : models_)
      for (auto& [version, slot] : model.versions) {
        if (slot.pipeline && relink_served(loader, name, version, slot)) changed = true;
        if (slot.pending && link_pending(loader, name, version, slot)) changed = true;
      }
  }
}

// True when what is served has changed. A pipeline that has lost a node waits for it.
bool ModelTable::relink_served(const Loader& loader, const std::string& name, uint64_t version, Slot& slot) {
  auto nodes = nodes_of(*slot.pipeline);
  if (!nodes) {
    base::log::warning("pipeline lost a node", {{"model", name}, {"reason", nodes.error().text}});
    retire(name, version, slot);
    if (!slot.pending) slot.pending = std::move(slot.pipeline);
    slot.pipeline.reset(), slot.pending->nodes.clear();
    return true;
  }
  if (*nodes == slot.pipeline->nodes) return false;  // built with these, or not possible with these
  slot.pipeline->nodes = *nodes;
  auto served = build_pipeline(*slot.pipeline, loader, version);
  if (!served) {
    base::log::warning("pipeline cannot use its new nodes", {{"model", name}, {"reason", served.error().text}});
    slot.load_failed(served.error());
    return false;
  }
  retire(name, version, slot);
  slot.served = std::move(*served);
  slot.state = ModelState::kReady;
  if (!slot.pending) slot.reason.clear();
  base::log::info("pipeline linked", {{"model", name}, {"version", version}, {"nodes", nodes->size()}});
  return true;
}

// The same. What serves before it does so until then.
bool ModelTable::link_pending(const Loader& loader, const std::string& name, uint64_t version, Slot& slot) {
  auto nodes = nodes_of(*slot.pending);
  if (!nodes) {
    slot.pending->nodes.clear();
    slot.load_failed(nodes.error());
    return false;
  }
  if (*nodes == slot.pending->nodes) return false;  // not possible with these
  slot.pending->nodes = *nodes;
  auto served = build_pipeline(*slot.pending, loader, version);
  if (!served) {
    base::log::warning("pipeline cannot use its nodes", {{"model", name}, {"reason", served.error().text}});
    slot.load_failed(served.error());
    return false;
  }
  retire(name, version, slot);
  const uint64_t fingerprint = slot.pending->folder.fingerprint(version);
  slot = Slot{ModelState::kReady, "", std::move(*served), fingerprint, std::move(slot.pending)};
  models_.at(name).take_names(slot.pipeline->config);
  base::log::info("pipeline linked", {{"model", name}, {"version", version}, {"nodes", nodes->size()}});
  return true;
}

}  // namespace weir::models
