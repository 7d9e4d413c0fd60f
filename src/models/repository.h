// Repository: models on disk -> engines and lanes -> Catalog. Loads, unloads and reloads while requests run.
//
// All work happens on a thread of its own, and each load on another one beside it: loading never blocks a shard, and a
// load that hangs nobody who wants something of another model. A model that fails to load leaves the version that was
// serving in place and says why in the index.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/client.h"
#include "base/metrics.h"
#include "base/status.h"
#include "bus/catalog.h"
#include "generation/token_model.h"
#include "models/model_waits.h"
#include "models/placement.h"
#include "sched/decoupled_engine.h"
#include "sched/demand_inbox.h"
#include "sched/engine.h"
#include "sched/remote_model.h"

namespace weir::models {

enum class Control : uint8_t { kNone, kPoll, kExplicit, kDemand };

// The arguments with which an engine's maker loads one instance of a model version.
struct LoadArgs {
  const msg::ModelSpec& wanted;  // from the configuration; empty fields are for the engine to derive
  std::string file;              // path of the model file, or of the version's folder; empty for built-in engines
  uint32_t instance = 0;         // `wanted` has the device of this one in parameter `device`, if one was chosen
  base::SlabSource& slabs;       // for outputs
  // To be called, from any thread, when the engine cannot go on (its device is lost): the version is taken out of
  // service and loaded anew, which makes new engines. Calls fail with whatever the engine says meanwhile. Where other
  // instances of the version are left (Engine::health(), DecoupledEngine::serves_on()) those serve until it is loaded.
  // Only the first call of a version counts; outlives the engine and the Repository.
  std::function<void(base::Status)> broken{};
  // False: the Repository ends, and nobody will call the model: for an engine to ask now and then while it loads. Any
  // thread, also when the Repository is gone. Never null when the Repository loads.
  std::function<bool()> loading{};
  // Waits until no other load has the turn of that name ("cuda:0"), and has it until the result is destroyed: for what
  // must not happen beside another load there, such as to measure the free memory and to take a part of it. Null: the
  // Repository ends. On the thread that loads, before the maker returns. Never null when the Repository loads.
  std::function<std::shared_ptr<void>(const std::string& of)> turn{};
  // For engine forward alone: the model has instances here, as this says; the RemoteModel stands beside them.
  const msg::ModelSpec* local = nullptr;
  // True once the load waits no more for what the maker makes: it has been made, and warmed up. Null for
  // engine forward.
  std::shared_ptr<const std::atomic<bool>> made{};
  // The load waits for somebody else until the result is destroyed, and takes none of this machine's memory or time:
  // others are loaded in its place. On the thread that loads. Never null when the Repository loads.
  std::function<std::shared_ptr<void>()> aside{};
};
// One instance of a model of rows, of tokens, or of any number of answers; or a model that another process runs.
using Instance = std::variant<std::unique_ptr<sched::Engine>, generation::TokenModel,
                              std::unique_ptr<sched::DecoupledEngine>, sched::RemoteModel>;
// A failure that is worth another try (base::try_again) has the model loaded again, until it serves. Called by several
// threads at once, for different models.
using EngineMaker = std::function<base::Result<Instance>(const LoadArgs&)>;

struct RepositoryOptions {
  std::vector<std::string> roots;  // folders in Triton's layout, or single model files (models/folder.h)
  Control control = Control::kNone;
  base::Duration poll_interval = std::chrono::seconds(5);
  std::vector<std::string> startup;  // explicit, demand: models to load at start ("*" = all)
  // demand: bytes of models in memory at once, 0 = any number; how many requests wait for one to be loaded, how long.
  uint64_t memory = 0;
  sched::DemandInbox::Bounds waiting;
  // Requests that models make of each other, noted by those who make them. demand: no model leaves memory for one that
  // it waits for.
  ModelWaits waits;
  uint32_t load_threads = 0;                     // loads beside each other; 0: as many as there are cores, 2 to 4
  std::string default_model;                     // Catalog::default_model
  bool allow_config_override = false;            // `config` and `file:` parameters of a load request
  std::vector<std::string> adapter_roots;        // folders of adapters that load requests may name; none: they may not
  msg::BatchPolicy batching;                     // defaults for models that say nothing
  uint32_t max_batch = 32;                       // for models that can be batched and do not say how far
  uint32_t max_concurrency = 0;                  // calls inside the engines at once, of all models; 0 = any number
  uint64_t response_cache = uint64_t(64) << 20;  // bytes of cached answers, of all models that ask for it; 0 = none
  base::ShareRule share;                         // of a model's places that one client may hold: limits.client_share
  std::map<std::string, uint32_t> resources;     // of rate limiters, on each device; others: the most that is asked for
  DeviceSupply devices;                          // what instances can be placed on
  // The parameters that each engine knows: others in a model.yaml are errors. An engine that is not here takes any.
  std::map<std::string, std::vector<std::string_view>> parameters{{"pipeline", {}}};
  bus::KeptDurations durations = bus::KeptDurations::kSums;  // of the calls of each model
  bool strict = false;                                       // a model that fails at start makes start() fail
};

// The model that asks for a load; empty for a client.
struct Asking {
  std::string model{};
  std::shared_ptr<const std::atomic<bool>> made{};  // LoadArgs::made of the instance that asks; null: not known
};

// "config", "file:1/model.onnx" -> raw bytes. Or of an adapter: "lora_path", a folder below one of
// RepositoryOptions::adapter_roots, and perhaps "base_model_name", "load_inplace" ("true": in place of a former one).
using LoadParameters = std::map<std::string, std::string>;

class Repository {
 public:
  // `publish` is called with every new Catalog, by one thread at a time, and nothing else of the Repository goes on
  // meanwhile; it must bring it to every shard and may return before it is in use there; `settled` is to be called when
  // no shard uses an older one.
  using Publish = std::function<void(std::shared_ptr<const bus::Catalog>, std::function<void()> settled)>;

  Repository(RepositoryOptions options, std::map<std::string, EngineMaker> engines, base::SlabSource& slabs,
             Publish publish);
  ~Repository();  // every Call must have come back

  // First load of all that is wanted, synchronously: beside each other, each pipeline behind its nodes. Each model
  // serves as soon as it is loaded. Errors only under `strict`, and UNAVAILABLE behind stop().
  base::Status start();
  // Asynchronous; `done` is called on the repository's thread, which it must not block. A load of what is loaded
  // reloads it if the files changed. An adapter becomes a model beside the one that it is for, whatever `control` says;
  // so it leaves again. What is asked for while the model is being loaded is done after that, in its turn. With kDemand
  // the model is in memory then, as if a request had asked for it. Whoever asks may be a model that is loaded itself,
  // and wait for this: an error where it would wait for itself.
  void load(std::string name, LoadParameters parameters, std::function<void(base::Status)> done, Asking asking = {});
  // With its dependents go the models that it is a pipeline of, and theirs, unless another pipeline needs them, or they
  // were loaded on their own. With kDemand no request brings it back but a load.
  enum class Dependents : bool { kKeep, kUnload };
  // With `asking` it is done at once, or refused where the model is being loaded.
  void unload(std::string name, Dependents dependents, std::function<void(base::Status)> done, std::string asking = {});
  // Fingerprints at the folders now and takes what has changed, without waiting for it to settle (SIGHUP). Under
  // kExplicit only what is loaded is looked at. `done` is called on the repository's thread, once every shard has the
  // outcome.
  void rescan(std::function<void()> done);
  // Folders below `root`, one of the options' roots, have come, gone, or changed: loads and unloads these models,
  // whatever `control` says; those that an earlier root has are left alone.
  void refresh(std::string root, std::vector<std::string> names);
  // Why the last look at the folders came to nothing, or did for one root, so that what was loaded of it stays as it
  // is; empty: it did not. With paths of this machine. Any thread.
  std::string trouble() const;
  // Ends the threads, once the loads that run are done; engines are told (LoadArgs::loading). What is loaded stays
  // callable until the destructor. load() and unload() that have not begun, and those after this, are refused with
  // UNAVAILABLE. It may come while another thread is in start().
  void stop();
  // The same; false where a load still runs after `most`: nothing may be destroyed then.
  bool stop_within(base::Duration most);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace weir::models
