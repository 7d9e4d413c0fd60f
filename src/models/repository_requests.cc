#include "models/repository_requests.h"

#include <utility>

#include "models/adapter_table.h"

namespace weir::models {
namespace {

base::Status is_being_loaded(const std::string& name) {
  return base::failure(base::Code::kFailedPrecondition, "model '" + name + "' is being loaded");
}

}  // namespace

base::Status Repository::Parts::Requests::check_request(const std::string& name, std::string_view verb) const {
  if (!good_model_name(name)) return bad_name(name);
  if (parts_.options.control == Control::kExplicit || parts_.options.control == Control::kDemand) return {};
  const std::string now = parts_.options.control == Control::kPoll ? "poll" : "none";
  return base::failure(base::Code::kFailedPrecondition,
                       "cannot " + std::string(verb) + " '" + name + "': models.control is '" + now +
                           "'; requests load and unload models only with models.control: explicit or demand");
}

void Repository::Parts::Requests::load(const std::string& name, const Given& parameters, const Asking& asking,
                                       const Done& done) {
  if (parameters->contains("lora_path") && asking.model.empty()) return load_adapter(name, parameters, done);
  if (auto s = check_request(name, "load"); !s.ok()) return done(s);
  std::shared_ptr<const void> wait;
  if (!asking.model.empty()) wait = parts_.options.waits.begin(asking.model, name);
  auto loaded = [this, name, done, wait](const base::Status& status) {
    if (!status.ok() || !parts_.demand.is_missing(name)) return done(status);
    const auto who = wait ? Demand::Asks::kModel : Demand::Asks::kClient;
    parts_.demand.want(name, who, [done, wait](const base::Status& outcome) { done(outcome); });
  };
  if (asking.model.empty())
    return jobs_.add(name, LoadJobs::Needs::kPlace,
                     [this, name, parameters, loaded] { loaded(load_named(name, parameters)); });
  // While a model is loaded anew, the instances that serve may ask as well: no load waits for those.
  const bool serves = asking.made && asking.made->load();
  const std::string waiter = !serves && jobs_.is_busy(asking.model) ? asking.model : "";
  if (parts_.demand.on() && !waiter.empty())
    return done(base::failure(base::Code::kFailedPrecondition,
                              "with models.control: demand a model cannot load others while it is loaded itself"));
  // The load of one may wait for the answer of another that is not loaded itself, which nobody here knows of. No load
  // waits for what that one asks for.
  if (waiter.empty() ? !jobs_.claim_now(name) : !jobs_.may_wait(waiter, name)) return done(is_being_loaded(name));
  jobs_.add_beside([this, name, parameters, waiter, loaded] { loaded(load_for(waiter, name, parameters)); });
}

base::Status Repository::Parts::Requests::load_for(const std::string& waiter, const std::string& name,
                                                   const Given& parameters) {
  if (!waiter.empty() && !jobs_.claim_when_free(name, waiter)) return is_ending();
  auto status = load_named(name, parameters);
  jobs_.release(name, waiter);
  return status;
}

base::Status Repository::Parts::Requests::load_named(const std::string& name, const Given& parameters) {
  if (parts_.queue->ends()) return is_ending();
  if (!parameters->empty()) return load_uploaded(name, *parameters);
  auto folder = parts_.find(name);
  if (!folder) return parts_.not_there(name, folder.error());
  // A configuration that came with a load request is in force until the folder changes, as Triton has it, or the model
  // breaks: nobody loads that anew but this.
  const Upload* given = table_.uploaded(name);
  const bool in_force = given && given->root().empty() && table_.serves(name, ModelTable::Serves::kWhole);
  if (in_force && parts_.watch.has_taken(name, folder->fingerprint())) return {};
  const auto config = parts_.configure(*folder);
  if (!table_.serves(name)) {
    table_.register_model(name, config ? &*config : nullptr);
    table_.mark_loading(name), parts_.publish();
  }
  parts_.wanted.insert(name), parts_.asked_for.insert(name), parts_.away.erase(name);
  std::set<std::string> seen;
  if (config) load_nodes(*folder, *config, seen);
  auto status = parts_.load_one(*folder, nullptr);
  parts_.publish();
  return status;
}

base::Status Repository::Parts::Requests::load_uploaded(const std::string& name, const LoadParameters& parameters) {
  if (!parts_.options.allow_config_override)
    return base::failure(
        base::Code::kPermissionDenied,
        "load parameters ('config', 'file:…') are off; models.allow_config_override: true allows them");
  auto upload = [&] {
    const RepositoryLock::Unlocked unlocked(parts_.lock);
    return Upload::make(name, parameters, parts_.options.batching);
  }();
  if (!upload) return upload.error();
  auto folder = (*upload)->root().empty() ? parts_.find(name) : find_model_folder({(*upload)->root()}, name);
  if (!folder) return parts_.not_there(name, folder.error());
  parts_.wanted.insert(name), parts_.asked_for.insert(name), parts_.away.erase(name);
  std::set<std::string> seen;
  load_nodes(*folder, (*upload)->config(), seen);
  auto status = parts_.load_one(*folder, std::move(*upload));
  if (status.ok() && parts_.demand.on() && !parts_.demand.trim()) {
    status = base::failure(base::Code::kResourceExhausted, "models that cannot leave memory take all of models.memory");
    unload_one(name, Dependents::kKeep, {});
  }
  parts_.publish();
  return status;
}

// The nodes of a pipeline that nobody has loaded yet, as Triton does.
void Repository::Parts::Requests::load_nodes(const ModelFolder& pipeline, const ModelConfig& config,
                                             std::set<std::string>& seen) {
  seen.insert(pipeline.name);
  for (const auto& node : config.dag.nodes) {
    if (table_.serves(node.model) || !seen.insert(node.model).second) continue;
    if (!jobs_.claim(node.model, pipeline.name)) continue;
    if (!table_.serves(node.model)) load_node(node.model, seen);
    jobs_.release(node.model, pipeline.name);
  }
}

// A failure is told by the pipeline, which finds no node.
void Repository::Parts::Requests::load_node(const std::string& node, std::set<std::string>& seen) {
  auto folder = parts_.find(node);
  if (!folder) return;
  if (auto deeper = parts_.configure(*folder)) load_nodes(*folder, *deeper, seen);
  parts_.wanted.insert(node);
  parts_.load_one(*folder, nullptr);
}

void Repository::Parts::Requests::unload(const std::string& name, Dependents dependents, const std::string& asking,
                                         const Done& done) {
  if (const auto* model = asking.empty() ? AdapterTable(table_).owner(name) : nullptr)
    return jobs_.add(*model, LoadJobs::Needs::kNothing,
                     [this, model = *model, name, done] { done(unload_adapter(model, name)); });
  if (auto s = check_request(name, "unload"); !s.ok()) return done(s);
  if (asking.empty())
    return jobs_.add(name, LoadJobs::Needs::kNothing,
                     [this, name, dependents, done] { done(unload_named(name, dependents, {})); });
  done(jobs_.is_busy(name) ? is_being_loaded(name) : unload_named(name, dependents, asking));
}

base::Status Repository::Parts::Requests::unload_named(const std::string& name, Dependents dependents,
                                                       const std::string& asking) {
  if (parts_.queue->ends()) return is_ending();
  if (!table_.knows(name)) return parts_.not_found(name);
  unload_one(name, dependents, asking);
  parts_.publish();
  return {};
}

// A node stays that another pipeline needs, or that was loaded on its own.
bool Repository::Parts::Requests::stays(const std::string& node) const {
  return table_.is_node(node) || parts_.asked_for.contains(node);
}

// A node that is being loaded goes after that, unless it is a model that asks: its load may wait for this.
void Repository::Parts::Requests::unload_one(const std::string& name, Dependents dependents,
                                             const std::string& asking) {
  auto nodes = table_.nodes(name);
  parts_.wanted.erase(name), parts_.asked_for.erase(name);
  if (parts_.demand.on()) parts_.away.insert(name);
  parts_.watch.forget(name);
  table_.unload(name, ModelTable::Row::kKeep);
  if (dependents == Dependents::kKeep) return;
  for (const auto& node : nodes) {
    if (stays(node)) continue;
    if (!jobs_.is_busy(node)) {
      unload_one(node, dependents, asking);
    } else if (asking.empty()) {
      jobs_.add(node, LoadJobs::Needs::kNothing, [this, node] {
        if (parts_.queue->ends() || stays(node)) return;
        unload_one(node, Dependents::kUnload, {});
        parts_.publish();
      });
    }
  }
}

}  // namespace weir::models
