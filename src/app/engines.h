// The engines of this build, and the model repository's options that depend on them. A new engine is one line in
// engines(), and one in engine_parameters() beside it for what its model.yaml may say.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "app/config.h"
#include "base/host_memory.h"
#include "device/devices.h"
#include "engines/forward/runtime.h"
#include "engines/onnx/runtime.h"
#include "engines/process/engine.h"
#include "models/repository.h"

namespace weir::app {

onnx::Options onnx_options(const Config& config);
// config.processes, and how a child with an engine of this program is started.
process::Options process_options(const Config& config);
// The error of a model of an engine that cannot be isolated.
std::string not_isolated(const std::string& engine);

// The surroundings of models with code of their own: other models, and metrics of their own.
struct ModelsWorld {
  std::function<process::FindModel(std::string asking)> find{};  // for the model that asks; null: none finds any
  std::shared_ptr<process::CustomMetrics> metrics{};
  std::function<process::ModelControl(models::Asking)> control{};  // of the model that asks; null: none has any
};

// The maker of each engine, by the name that a model.yaml gives. What it takes is borrowed and outlives the engines.
// `pinned`: how many cores, from the first, have a shard that keeps to it (pinned_shards()). `world`: what models with
// code of their own may reach.
std::map<std::string, models::EngineMaker> engines(onnx::Runtime& onnx, forward::Runtime& forward,
                                                   device::Devices& devices, base::HostMemory& host_memory,
                                                   uint32_t pinned, const process::Options& processes,
                                                   const ModelsWorld& world);

// The way from models to the server, which may be gone before they are. Any thread.
class ModelDoor : public std::enable_shared_from_this<ModelDoor> {
 public:
  // `waits`: where models' requests of each other are noted.
  ModelDoor(base::MemoryLedger* ledger, models::ModelWaits waits)
      : metrics_(std::make_shared<process::CustomMetrics>(ledger)), waits_(std::move(waits)) {}
  // Models load and unload others by it, from here on until null is set.
  void set(models::Repository* repository);
  // `catalog` outlives the models.
  ModelsWorld world(std::function<std::shared_ptr<const bus::Catalog>()> catalog);
  void write_metrics(std::string& out) const { metrics_->write(out); }

 private:
  base::Status enter(const std::function<void(models::Repository&)>& visit);
  process::ModelControl control(const models::Asking& asking);

  const std::shared_ptr<process::CustomMetrics> metrics_;
  const models::ModelWaits waits_;
  std::mutex mutex_;
  models::Repository* repository_ = nullptr;  // under mutex_
};

// config.models, with the devices of this machine and the parameters that each engine takes.
models::RepositoryOptions repository_options(const Config& config, device::Devices& devices);

}  // namespace weir::app
