// Loader: one version of a model, from its folder to something that can be called. Any thread, without the repository's
// lock; load_pipeline() with it.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/dag.h"
#include "models/folder.h"
#include "models/model_config.h"
#include "models/model_files.h"
#include "models/repository.h"
#include "msg/readiness_probe.h"
#include "sched/concurrency_limiter.h"
#include "sched/response_cache.h"

namespace weir::models {

class Loader {
 public:
  // An engine of what was served as this cannot go on. Any thread.
  struct Broken {
    std::string model;
    uint64_t version = 0;
    std::weak_ptr<bus::Served> served;
    base::Status why;
    std::function<bool()> serves_on{};  // whether others of it go on; once load() has returned, while `served` lives
  };
  struct Hooks {
    std::function<void(Broken)> on_broken;
    std::function<bool()> loading;                                  // LoadArgs::loading
    std::function<std::shared_ptr<void>(const std::string&)> turn;  // LoadArgs::turn
    std::function<std::shared_ptr<void>()> aside;                   // LoadArgs::aside
  };

  Loader(const RepositoryOptions& options, const std::map<std::string, EngineMaker>& engines, base::SlabSource& slabs,
         Hooks hooks)
      : options_(options),
        engines_(engines),
        slabs_(slabs),
        hooks_(std::move(hooks)),
        limiter_(options.max_concurrency > 0 ? std::make_shared<sched::ConcurrencyLimiter>(options.max_concurrency)
                                             : nullptr),
        rate_limiter_(std::make_shared<sched::RateLimiter>(options.resources)),
        cache_(options.response_cache > 0
                   ? std::make_shared<sched::ResponseCache>(options.response_cache, slabs.ledger())
                   : nullptr) {}

  // False: the Repository ends.
  bool loads() const { return hooks_.loading(); }

  // The model's configuration, from whichever file it has, or all defaults. Errors: INVALID_ARGUMENT with the place.
  base::Result<ModelConfig> configure(const ModelFolder& folder) const;

  // The versions to serve by the policy. A model of a built-in engine without version folders has version 1. Errors:
  // NOT_FOUND when there is none.
  base::Result<std::vector<uint64_t>> versions(const ModelFolder& folder, const ModelConfig& config) const;

  // Makes the engines and their lanes. Errors: the engine's, without paths of this machine.
  base::Result<std::shared_ptr<bus::Served>> load(const ModelFolder& folder, const ModelConfig& config,
                                                  uint64_t version) const;
  // The same for a pipeline; its nodes are what `find` has now.
  base::Result<std::shared_ptr<bus::Served>> load_pipeline(const ModelFolder& folder, const ModelConfig& config,
                                                           uint64_t version, const FindServed& find) const;

 private:
  // The instances of one version: those of one of the four.
  struct Instances {
    std::vector<std::unique_ptr<sched::Engine>> engines;
    std::vector<generation::TokenModel> token_models;
    std::unique_ptr<sched::DecoupledEngine> decoupled;  // one runs any number of Calls side by side
    std::optional<sched::RemoteModel> remote;
    std::optional<sched::RemoteModel> beside{};                  // the first three: others who run the model, too
    uint32_t first = 0;                                          // the number of the first of `engines`
    std::vector<std::shared_ptr<msg::ReadinessProbe>> probes{};  // of the instances; null where one has none
    const msg::ModelSpec& spec() const {
      if (remote) return remote->spec;
      return decoupled ? decoupled->spec() : engines.empty() ? token_models.front().spec : engines.front()->spec();
    }
  };
  using Lines = std::map<std::string, std::string>;  // ModelConfig::parameter_lines
  base::Status check_parameters(const Lines& given, const std::string& engine) const;
  using Source = ModelSource;
  // A version to load, before anything is made of it.
  struct Plan {
    const ModelFolder& folder;
    const ModelConfig& config;
    uint64_t version;
    Source source;
    msg::ModelSpec wanted;            // what the engines are asked for
    std::vector<std::string> places;  // of the instances: names of devices
    std::vector<size_t> groups;       // and which group of the configuration each is of; empty: there are none
  };
  base::Result<Plan> plan(const ModelFolder& folder, const ModelConfig& config, uint64_t version) const;
  base::Result<std::shared_ptr<bus::Served>> load(const Plan& plan) const;
  struct Living;
  std::function<void(base::Status)> when_broken(const Plan& plan, const std::shared_ptr<bus::Served>& served,
                                                std::shared_ptr<const Living> living) const;
  using Made = std::shared_ptr<std::atomic<bool>>;  // LoadArgs::made
  base::Result<Instances> make_instances(const Plan& plan, const std::function<void(base::Status)>& broken,
                                         const Made& all_made) const;
  using Limiter = std::shared_ptr<sched::ConcurrencyLimiter>;
  static Limiter own_limiter(const ModelConfig& config);  // null: there is no limit
  void make_inbox(bus::Served& served, const msg::ModelSpec& spec, Instances instances, const ModelConfig& config,
                  Limiter own) const;
  base::Result<std::shared_ptr<bus::Served>> with_inbox(const Plan& plan, msg::ModelSpec spec, Instances instances,
                                                        std::shared_ptr<bus::Served> served) const;
  base::Result<std::shared_ptr<bus::Served>> load_sequences(const Plan& plan, msg::ModelSpec spec, Instances instances,
                                                            std::shared_ptr<bus::Served> served) const;
  static std::vector<Instances> parts_of_sequences(Instances instances);
  base::Status add_origins(const Plan& plan, const msg::ModelSpec& spec, Instances& instances) const;
  base::Status limit_rate(const Plan& plan, Instances& instances) const;
  void limit(bus::Served& served, Limiter own) const;
  void cache(bus::Served& served, const ModelConfig& config) const;
  base::Result<Source> locate(const ModelFolder& folder, const ModelConfig& config, uint64_t version) const;
  base::Status add_labels(const ModelFolder& folder, const ModelConfig& config, msg::ModelSpec& spec) const;

  const RepositoryOptions& options_;
  const std::map<std::string, EngineMaker>& engines_;
  base::SlabSource& slabs_;
  const Hooks hooks_;
  const std::shared_ptr<sched::DeadlineTimer> deadline_timer_ =
      std::make_shared<sched::TimerThread>();                 // of all models' queues
  const std::shared_ptr<sched::ConcurrencyLimiter> limiter_;  // of all models; null when there is no limit
  const std::shared_ptr<sched::RateLimiter> rate_limiter_;    // of all models
  const std::shared_ptr<sched::ResponseCache> cache_;         // of all models; null when it is off
};

}  // namespace weir::models
