// The part of Loader that puts limits, origins and the response cache around a version.
#include "base/log.h"
#include "models/loader.h"

namespace weir::models {

Loader::Limiter Loader::own_limiter(const ModelConfig& config) {
  return config.max_concurrency == 0 ? nullptr : std::make_shared<sched::ConcurrencyLimiter>(config.max_concurrency);
}

// The model's own limit stands before the one of all models, so that those who wait for it keep nobody else waiting. A
// pipeline has no part in the latter: its nodes do.
void Loader::limit(bus::Served& served, Limiter own) const {
  if (!own) return;
  served.inbox = sched::behind(std::move(own), std::move(served.inbox), served.spec, served.stats, deadline_timer_);
}

// Lanes wait for resources; what runs on shards, or makes tokens, has no lane of its own to wait on.
base::Status Loader::limit_rate(const Plan& plan, Instances& instances) const {
  for (size_t i = 0; i < plan.groups.size(); ++i) {
    const auto& rate = plan.config.groups.at(plan.groups[i]).rate;
    if (rate.resources.empty()) continue;
    if (i >= instances.engines.size() || instances.engines[i]->is_inline()) {
      base::log::warning("no rate limit",
                         {{"model", plan.folder.name}, {"reason", "resources are for instances of models of tensors"}});
      return {};
    }
    auto instance = sched::RateLimiter::join(rate_limiter_, rate, instances.engines[i]->place());
    if (!instance) return instance.error();
    instances.engines[i] = sched::make_rate_limited(std::move(instances.engines[i]), std::move(*instance));
  }
  return {};
}

// The origins of a model that runs here, too, get what the instances here are too busy for.
base::Status Loader::add_origins(const Plan& plan, const msg::ModelSpec& spec, Instances& instances) const {
  const ModelConfig& config = plan.config;
  if (config.origins.empty()) return {};
  const std::string forward = "forward";
  if (!config.origins.contains("origins")) return base::invalid("'kind' and 'origin_parameters' need 'origins'");
  if (config.sequence || !engines_.contains(forward))
    return base::failure(base::Code::kUnimplemented,
                         "origins are not for models that keep something from one request to the next");
  if (auto s = check_parameters(config.origin_lines, forward); !s.ok()) return s;
  msg::ModelSpec wanted;
  wanted.name = spec.name, wanted.version = spec.version, wanted.engine = forward;
  wanted.parameters = config.origins;
  const bool has_folder = plan.folder.versions.contains(plan.version);
  const std::string files = has_folder ? plan.folder.version_path(plan.version) : std::string();
  auto made = engines_.at(forward)(LoadArgs{wanted, files, 0, slabs_, {}, hooks_.loading, hooks_.turn, &spec});
  if (!made) return made.error();
  instances.beside = std::get<sched::RemoteModel>(std::move(*made));
  return {};
}

// In front of all limits: a hit needs none of what they share out.
void Loader::cache(bus::Served& served, const ModelConfig& config) const {
  if (!config.response_cache) return;
  if (!cache_ || served.spec.text || served.spec.decoupled)
    base::log::warning("answers are not cached", {{"model", served.spec.name},
                                                  {"reason", !cache_            ? "models.response_cache is 0"
                                                             : served.spec.text ? "it is a model of text"
                                                                                : "it is decoupled"}});
  else
    served.inbox = sched::cached(cache_, std::move(served.inbox), served.stats);
}

}  // namespace weir::models
