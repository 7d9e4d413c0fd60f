// Loads and unloads of adapters that clients ask for.
#include <utility>

#include "models/adapter_table.h"
#include "models/repository_requests.h"

namespace weir::models {
namespace {

std::string said(const LoadParameters& parameters, const char* name) {
  const auto at = parameters.find(name);
  return at == parameters.end() ? std::string() : at->second;
}

}  // namespace

void Repository::Parts::Requests::load_adapter(const std::string& name, const Given& parameters, const Done& done) {
  if (parts_.options.adapter_roots.empty())
    return done(base::failure(base::Code::kPermissionDenied,
                              "adapters are not loaded on request here; models.adapter_roots names the folders that "
                              "they may lie in"));
  if (!good_further_name(name))
    return done(
        base::invalid("this cannot be the name of an adapter: letters, digits, '_', '.', '-', ':', '@', '+', "
                      "and '/' between parts, at most 200"));
  const AdapterTable adapters(table_);
  const std::string asked = said(*parameters, "base_model_name");
  auto model = asked.empty() ? adapters.usual_model(parts_.options.default_model) : base::Result<std::string>(asked);
  if (!model) return done(model.error());
  const auto* own = adapters.model_named(*model);
  if (!own) return done(parts_.not_found(*model));
  const auto load = [this, own = *own, name, parameters, done](const base::Status& there) {
    if (!there.ok()) return done(there);
    jobs_.add(own, LoadJobs::Needs::kPlace,
              [this, own, name, parameters, done] { done(load_adapter_of(own, name, *parameters)); });
  };
  if (!parts_.demand.on() || !parts_.demand.is_missing(*own)) return load({});
  parts_.demand.want(*own, Demand::Asks::kClient, load);
}

base::Status Repository::Parts::Requests::load_adapter_of(const std::string& model, const std::string& name,
                                                          const LoadParameters& parameters) {
  if (parts_.queue->ends()) return is_ending();
  const std::string path = said(parameters, "lora_path");
  auto source = [&] {
    const RepositoryLock::Unlocked unlocked(parts_.lock);
    return find_adapter(parts_.options.adapter_roots, path);
  }();
  if (!source) return source.error();
  using Former = AdapterTable::Former;
  const Former former = said(parameters, "load_inplace") == "true" ? Former::kReplace : Former::kKeep;
  auto status = AdapterTable(table_).load(model, name, *source, source->path, former);
  if (status.ok() && parts_.demand.on()) (void)parts_.demand.trim();
  parts_.publish();
  return status;
}

base::Status Repository::Parts::Requests::unload_adapter(const std::string& model, const std::string& name) {
  if (parts_.queue->ends()) return is_ending();
  if (parts_.options.adapter_roots.empty())
    return base::failure(base::Code::kPermissionDenied,
                         "adapters are not unloaded on request here (models.adapter_roots)");
  auto status = AdapterTable(table_).unload(model, name);
  parts_.publish();
  return status;
}

}  // namespace weir::models
