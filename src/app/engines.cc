#include "app/engines.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "app/engine_child.h"
#include "bus/load_notes.h"
#include "engines/forward/options.h"
#include "engines/identity/identity.h"
#include "engines/llm/echo_model.h"
#include "engines/llm/llm.h"
#include "engines/llm/options.h"
#include "engines/llm/text_request.h"
#include "engines/llm/text_tensor_inbox.h"
#include "engines/onnx/library.h"
#include "engines/process/engine.h"
#include "engines/repeat/repeat.h"

namespace weir::app {
namespace {

// Models of tensors that answer each request once can run in a process of their own. Those of engines `process` and
// `python` do so anyway.
constexpr std::string_view kIsolated[] = {"identity", "onnx"}, kOfOtherKinds[] = {"echo", "forward", "llm", "repeat"};

// The parameters that each engine takes in a model.yaml.
std::map<std::string, std::vector<std::string_view>> engine_parameters() {
  auto all = [](const auto& names) { return std::vector<std::string_view>(std::begin(names), std::end(names)); };
  auto echo = all(llm::kParameters);
  echo.emplace_back("step_us");
  std::map<std::string, std::vector<std::string_view>> known{
      {"identity", all(identity::kParameters)}, {"llm", all(llm::kParameters)},         {"echo", echo},
      {"onnx", onnx::parameter_names()},        {"forward", all(forward::kParameters)}, {"repeat", {}}};
  for (auto name : kIsolated)
    known.at(std::string(name))
        .insert(known.at(std::string(name)).end(), std::begin(process::kIsolationParameters),
                std::end(process::kIsolationParameters));
  for (auto name : kOfOtherKinds) known.at(std::string(name)).emplace_back("isolation");  // to be refused by name
  return known;
}

bool wants_isolation(const msg::ModelSpec& wanted) {
  auto found = wanted.parameters.find("isolation");
  return found != wanted.parameters.end() && found->second != "none";
}

base::Status check_isolation(const msg::ModelSpec& wanted) {
  const auto& word = wanted.parameters.at("isolation");
  if (word == "process") return {};
  return base::invalid("parameter 'isolation': expected process or none, got '" + word + "'");
}

models::EngineMaker isolating(models::EngineMaker maker, const process::Options& processes) {
  return [maker = std::move(maker), processes](const models::LoadArgs& a) -> base::Result<models::Instance> {
    if (!wants_isolation(a.wanted)) return maker(a);
    if (auto s = check_isolation(a.wanted); !s.ok()) return s;
    msg::ModelSpec wanted = a.wanted;
    if (wanted.platform.empty()) wanted.platform = wanted.engine == "onnx" ? onnx::kPlatform : wanted.engine;
    auto engine =
        process::load_isolated(wanted, a.file, {a.slabs, a.broken, a.instance, processes, {}, {}, {}, a.loading});
    if (!engine) return std::move(engine).error();
    return *std::move(engine);
  };
}

models::EngineMaker refusing_isolation(models::EngineMaker maker) {
  return [maker = std::move(maker)](const models::LoadArgs& a) -> base::Result<models::Instance> {
    if (!wants_isolation(a.wanted)) return maker(a);
    return base::failure(base::Code::kUnimplemented, not_isolated(a.wanted.engine));
  };
}

base::Result<models::Instance> instance(base::Result<llm::Loaded> loaded) {
  if (!loaded) return std::move(loaded).error();
  return std::visit([](auto&& made) -> models::Instance { return std::move(made); }, *std::move(loaded));
}

base::Result<models::Instance> instance(base::Result<process::Loaded> loaded) {
  if (!loaded) return std::move(loaded).error();
  return std::visit([](auto&& made) -> models::Instance { return std::move(made); }, *std::move(loaded));
}

process::Place place_of(const models::LoadArgs& a, const process::Options& processes, const ModelsWorld& world) {
  auto find = world.find ? world.find(a.wanted.name) : process::FindModel();
  auto control = world.control ? world.control({a.wanted.name, a.made}) : process::ModelControl();
  return {a.slabs, a.broken, a.instance, processes, std::move(find), world.metrics, std::move(control), a.loading};
}

// A model of tokens has a TextTensorInbox before it, wherever it runs.
base::Result<models::Instance> forwarded(forward::Runtime& forward, const models::LoadArgs& a) {
  const auto aside = a.local ? nullptr : a.aside();  // its origins may take their time
  auto model = forward.load(a.wanted, a.file, a.slabs, a.broken, a.local);
  if (!model) return std::move(model).error();
  if (!model->spec.text) return *std::move(model);
  if (!a.local) {
    model->spec.inputs = llm::text_inputs();
    model->spec.outputs = {{"text_output", msg::DType::kBytes, {1}, false, {}}};
  }
  model->make_inbox = [make = std::move(model->make_inbox)](const msg::ModelSpec& spec, bus::ModelStats& stats) {
    return llm::make_text_tensor_inbox(make(spec, stats), spec, stats);
  };
  return *std::move(model);
}

// A model's request of another, which it waits for as long as it keeps the target. It does not keep the Catalog: others
// may have to leave memory before the request is answered.
struct Asked {
  std::shared_ptr<const bus::Served> served;
  std::shared_ptr<const void> wait;
};

base::Result<process::Target> find_target(const bus::Catalog& catalog, std::string_view model, std::string_view version,
                                          const models::ModelWaits& waits, const std::string& asking) {
  auto found = catalog.find(model, version);
  if (!found) return std::move(found).error();
  const auto& spec = (*found)->spec;
  auto served = catalog.models.at(spec.name).versions.at(spec.version);
  auto asked = std::make_shared<const Asked>(Asked{std::move(served), waits.begin(asking, spec.name)});
  return process::Target{std::move(asked), &spec, (*found)->inbox.get(), bus::readiness_probe(**found)};
}

}  // namespace

std::string not_isolated(const std::string& engine) {
  return "isolation: process is for models of tensors that answer each request once, which those of engine '" + engine +
         "' are not";
}

process::Options process_options(const Config& config) {
  auto options = config.processes;
  options.engine_command = engine_command(config);
  options.share = {config.limits.client_share, 0};
  return options;
}

onnx::Options onnx_options(const Config& config) {
  onnx::Options options;
  options.library = config.onnx.library;
  // The words were checked when they were set.
  options.session = onnx::session_options({{"intra_op_threads", std::to_string(config.onnx.intra_op_threads)},
                                           {"inter_op_threads", std::to_string(config.onnx.inter_op_threads)},
                                           {"graph_optimization", config.onnx.graph_optimization},
                                           {"memory_arena", config.onnx.memory_arena ? "on" : "off"}},
                                          {})
                        .value();
  options.session.custom_ops = config.onnx.custom_ops;
  return options;
}

// A new engine is one line here.
std::map<std::string, models::EngineMaker> engines(onnx::Runtime& onnx, forward::Runtime& forward,
                                                   device::Devices& devices, base::HostMemory& host_memory,
                                                   uint32_t pinned, const process::Options& processes,
                                                   const ModelsWorld& world) {
  std::map<std::string, models::EngineMaker> makers{
      {"identity",
       [&devices](const models::LoadArgs& a) {
         return identity::load(a.wanted, {&devices, &a.slabs, a.broken});
       }},
      {"llm",
       [&devices, &host_memory, pinned](const models::LoadArgs& a) {
         return instance(llm::load(a.wanted, a.file, {&devices, a.broken, pinned, &host_memory, a.loading, a.turn}));
       }},
      {"echo", [](const models::LoadArgs& a) { return llm::load_echo(a.wanted); }},
      {"repeat", [](const models::LoadArgs& a) { return repeat::load(a.wanted); }},
      {"process",
       [processes, world](const models::LoadArgs& a) {
         return instance(process::load(a.wanted, a.file, place_of(a, processes, world)));
       }},
      {"python",
       [processes, world](const models::LoadArgs& a) {
         return instance(process::load_python(a.wanted, a.file, place_of(a, processes, world)));
       }},
      {"forward", [&forward](const models::LoadArgs& a) { return forwarded(forward, a); }},
      {"onnx",
       [&onnx, &devices](const models::LoadArgs& a) {
         return onnx.load(a.wanted, a.file, a.slabs, {&devices, a.broken, a.loading, a.turn});
       }},
  };
  for (auto name : kIsolated) makers.at(std::string(name)) = isolating(makers.at(std::string(name)), processes);
  for (auto name : kOfOtherKinds) makers.at(std::string(name)) = refusing_isolation(makers.at(std::string(name)));
  return makers;
}

void ModelDoor::set(models::Repository* repository) {
  std::lock_guard lock(mutex_);
  repository_ = repository;
}

// The mutex is held meanwhile: load() and unload() of a Repository only put down what is to be done.
base::Status ModelDoor::enter(const std::function<void(models::Repository&)>& visit) {
  std::lock_guard lock(mutex_);
  if (!repository_) return base::failure(base::Code::kUnavailable, "the server is shutting down");
  visit(*repository_);
  return {};
}

ModelsWorld ModelDoor::world(std::function<std::shared_ptr<const bus::Catalog>()> catalog) {
  auto find = [waits = waits_, catalog = std::move(catalog)](const std::string& asking) -> process::FindModel {
    return [waits, catalog, asking](std::string_view model, std::string_view version) {
      return find_target(*catalog(), model, version, waits, asking);
    };
  };
  return {std::move(find), metrics_,
          [door = shared_from_this()](const models::Asking& asking) { return door->control(asking); }};
}

process::ModelControl ModelDoor::control(const models::Asking& asking) {
  using models::Repository;
  using process::ModelControl;
  ModelControl control;
  control.load = [door = shared_from_this(), asking](std::string model, ModelControl::Parameters parameters,
                                                     const ModelControl::Done& done) {
    auto s = door->enter(
        [&](Repository& repository) { repository.load(std::move(model), std::move(parameters), done, asking); });
    if (!s.ok()) done(s);
  };
  control.unload = [door = shared_from_this(), asking](std::string model, process::Dependents dependents,
                                                       const ModelControl::Done& done) {
    const auto theirs =
        dependents == process::Dependents::kUnload ? Repository::Dependents::kUnload : Repository::Dependents::kKeep;
    auto s =
        door->enter([&](Repository& repository) { repository.unload(std::move(model), theirs, done, asking.model); });
    if (!s.ok()) done(s);
  };
  return control;
}

models::RepositoryOptions repository_options(const Config& config, device::Devices& devices) {
  auto options = config.models;
  options.share = {config.limits.client_share, 1};
  if (std::find(config.metrics_compat.begin(), config.metrics_compat.end(), "triton") != config.metrics_compat.end())
    options.durations = config.metrics_summaries ? bus::KeptDurations::kQuantiles : bus::KeptDurations::kHistogram;
  options.devices.gpus = uint32_t(devices.cuda_count());
  options.devices.engines = {"identity", "llm"};
  if (onnx::has_cuda(onnx::library_places(config.onnx.library))) options.devices.engines.emplace_back("onnx");
  options.parameters.merge(engine_parameters());
  return options;
}

}  // namespace weir::app
