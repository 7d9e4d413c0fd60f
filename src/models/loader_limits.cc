// The part of Loader that puts limits and the response cache around a version.
#include "base/log.h"
#include "models/loader.h"

namespace weir::models {

// The model's own limit stands before the one of all models, so that those who wait for it keep nobody else waiting. A
// pipeline has no part in the latter: its nodes do.
void Loader::limit(bus::Served& served, const ModelConfig& config) const {
  if (config.max_concurrency == 0) return;
  auto limiter = std::make_shared<sched::ConcurrencyLimiter>(config.max_concurrency);
  served.inbox = sched::behind(std::move(limiter), std::move(served.inbox), served.spec, served.stats, deadline_timer_);
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
