#include "models/loader.h"

#include <algorithm>
#include <exception>
#include <new>
#include <system_error>

#include "base/clock.h"
#include "base/encoding.h"
#include "base/log.h"
#include "models/client_view.h"
#include "models/details.h"
#include "models/estimate.h"
#include "models/file_hints.h"
#include "models/gguf_files.h"
#include "models/load_notes.h"
#include "models/memory_use.h"
#include "models/merge.h"
#include "models/model_files.h"
#include "models/model_yaml.h"
#include "models/separate_devices.h"
#include "models/task_queue.h"
#include "sched/decoupled_inbox.h"
#include "sched/lane.h"
#include "sched/local_first.h"

namespace weir::models {
namespace {

constexpr size_t kMaxConfig = 4 << 20;
constexpr size_t kMaxLabels = 16 << 20;

base::Status for_clients(base::Status why, const ModelFolder& folder, uint64_t version, const std::string& engine) {
  why.text = folder.without_root(std::move(why.text)) + hint_of_files(folder, version, engine);
  return why;
}

// The specification of an instance that is placed on `place`.
msg::ModelSpec on_device(msg::ModelSpec wanted, const std::string& place) {
  if (place == "cpu") wanted.parameters.erase("device");
  if (place == "cpu" && wanted.engine == "llm") wanted.parameters["device"] = "cpu";  // else it looks for a GPU
  if (!place.empty() && place != "cpu") wanted.parameters["device"] = place;
  return wanted;
}

base::Status serves_adapters(const Instance& made, const msg::ModelSpec& wanted) {
  const auto* model = std::get_if<generation::TokenModel>(&made);
  if (wanted.adapters.empty() || (model && model->engine->adapters() == wanted.adapters.size())) return {};
  return base::failure(base::Code::kUnimplemented, "engine '" + wanted.engine + "' serves no adapters");
}

// A model of tokens has the shortest context that one of its instances has.
void narrow(msg::ModelSpec& spec, const std::vector<generation::TokenModel>& instances) {
  for (const auto& instance : instances)
    if (instance.spec.text->max_length < spec.text->max_length) spec.text = instance.spec.text;
}

// An engine makes the tensors that are listed, or all where none is.
void add_sequence_tensors(const msg::SequenceSpec& sequences, msg::ModelSpec& wanted) {
  auto tensor = [](const std::string& name, msg::DType dtype) {
    msg::TensorSpec spec;
    spec.name = name, spec.dtype = dtype;
    return spec;
  };
  if (!wanted.inputs.empty()) {
    for (const auto& control : sequences.controls) wanted.inputs.push_back(tensor(control.input, control.dtype));
    for (const auto& state : sequences.states) wanted.inputs.push_back(tensor(state.input, state.dtype));
  }
  if (!wanted.outputs.empty())
    for (const auto& state : sequences.states) wanted.outputs.push_back(tensor(state.output, state.dtype));
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  size_t at = 0;
  while (at < text.size()) {
    size_t end = std::min(text.find('\n', at), text.size());
    size_t stop = end > at && text[end - 1] == '\r' ? end - 1 : end;
    lines.push_back(text.substr(at, stop - at));
    at = end + 1;
  }
  return lines;
}

}  // namespace

base::Result<ModelConfig> Loader::configure(const ModelFolder& folder) const {
  constexpr std::string_view kPbtxt = "config.pbtxt", kYaml = "model.yaml";
  ModelConfig config;
  config.batching = options_.batching;
  if (!folder.wrong.empty()) return base::failure(base::Code::kFailedPrecondition, folder.wrong);
  bool pbtxt = folder.has(kPbtxt), yaml = folder.has(kYaml);
  if (pbtxt && yaml) return base::invalid(folder.name + " has both config.pbtxt and model.yaml; keep one of them");
  if (pbtxt || yaml) {
    auto text = read_file(folder.path, pbtxt ? kPbtxt : kYaml, kMaxConfig);
    if (!text) return text.error();
    std::string place = folder.name + '/' + std::string(pbtxt ? kPbtxt : kYaml);
    auto parsed =
        pbtxt ? parse_pbtxt(*text, place, options_.batching) : parse_model_yaml(*text, place, options_.batching);
    if (!parsed) return parsed;
    config = std::move(*parsed);
  }
  if (auto s = check(config, folder.name); !s.ok()) return s;
  return config;
}

base::Result<std::vector<uint64_t>> Loader::versions(const ModelFolder& folder, const ModelConfig& config) const {
  auto present = folder.numbers();
  if (present.empty() && !config.engine.empty() && usual_file(config.engine).empty() && config.file.empty())
    present.push_back(1);
  if (present.empty()) {
    std::string text = "model '" + folder.name + "' has no version folder", hint = hint_to_move(folder);
    for (const auto& [entry, why] : folder.skipped) hint += "; " + folder.name + '/' + entry + ": " + why;
    for (const auto& file : folder.shared)
      if (version_number(file.path) > 0 && !folder.skipped.count(file.path))
        hint += "; " + folder.name + '/' + file.path + " is a file, no folder";
    if (hint.empty())
      hint = "; " + folder.name + "/1/ with model.onnx, config.json, a *.gguf file or model.py in it would be one";
    return base::failure(base::Code::kNotFound, text + hint);
  }
  auto chosen = config.versions.choose(present);
  if (chosen.empty())
    return base::failure(base::Code::kNotFound,
                         "the version policy of '" + folder.name + "' matches no version folder");
  return chosen;
}

base::Result<Loader::Source> Loader::locate(const ModelFolder& folder, const ModelConfig& config,
                                            uint64_t version) const {
  auto found = folder.versions.find(version);
  static const Stamps kNoFiles;
  const Stamps& files = found == folder.versions.end() ? kNoFiles : found->second;
  ModelSource given{config.engine, config.file};
  if (!folder.lone_file.empty()) given = lone_source(folder, config.file);
  auto chosen = choose_source(std::move(given), files, folder.name + '/' + std::to_string(version) + '/');
  if (!chosen) return chosen;
  Source source = std::move(*chosen);
  if (!engines_.count(source.engine)) {
    std::string names;
    for (const auto& [name, maker] : engines_) names += (names.empty() ? "" : ", ") + name;
    return base::failure(base::Code::kUnimplemented,
                         "no engine '" + source.engine + "' here; there are " + names + hint_of_engine(source.engine));
  }
  if (source.file.empty()) {
    if (!files.empty()) source.file = folder.version_path(version);
    return source;
  }
  // An engine whose model is a folder gets the folder; its files are its own to open.
  std::string relative = folder.relative(version, source.file);
  if (auto s = check_file(folder.path, relative); !s.ok()) return s;
  source.file = folder.path + '/' + relative;
  return source;
}

// A config.pbtxt may have parameters for Triton's own back ends; a model.yaml is for weir alone.
base::Status Loader::check_parameters(const Lines& given, const std::string& engine) const {
  auto known = options_.parameters.find(engine);
  if (known == options_.parameters.end()) return {};
  for (const auto& [name, place] : given) {
    const auto& names = known->second;
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    std::string text = place + ": engine '" + engine + "' has no parameter '" + name + "'";
    if (auto near = base::near_miss(name, names); !near.empty())
      return base::invalid(text + ", did you mean '" + std::string(near) + "'?");
    text += names.empty() ? "; it takes none" : "; it takes";
    for (const auto& n : names) text += (n == names.front() ? " " : ", ") + std::string(n);
    return base::invalid(std::move(text));
  }
  return {};
}

base::Status Loader::add_labels(const ModelFolder& folder, const ModelConfig& config, msg::ModelSpec& spec) const {
  for (const auto& output : config.outputs) {
    if (output.spec.label_file.empty()) continue;
    auto text = read_file(folder.path, output.spec.label_file, kMaxLabels);
    if (!text) return text.error();
    for (auto& tensor : spec.outputs)
      if (tensor.name == output.spec.name) tensor.labels = split_lines(*text);
  }
  return {};
}

base::Result<std::shared_ptr<bus::Served>> Loader::load_pipeline(const ModelFolder& folder, const ModelConfig& config,
                                                                 uint64_t version, const FindServed& find) const {
  const base::Time began = base::steady_now();
  if (auto s = check_parameters(config.parameter_lines, std::string(kPipeline)); !s.ok()) return s;
  auto linked = link(config, find);
  if (!linked) return linked.error();
  msg::ModelSpec wanted = config.wanted(folder.name, version);
  auto spec = merge(wanted, config, linked->spec, UINT32_MAX);
  if (!spec) return spec.error();
  if (auto s = add_labels(folder, config, *spec); !s.ok()) return s;
  auto served = std::make_shared<bus::Served>();
  keep_durations(*served, options_.durations, config);
  served->spec = std::move(*spec);
  served->inbox = sched::make_pipeline(std::move(linked->plan), served->stats);
  limit(*served, own_limiter(config));
  cache(*served, config);
  note_load(*served, config, began, {}, {});
  return served;
}

base::Result<Loader::Plan> Loader::plan(const ModelFolder& folder, const ModelConfig& config, uint64_t version) const {
  auto source = locate(folder, config, version);
  if (!source) return source.error();
  if (auto s = check_parameters(config.parameter_lines, source->engine); !s.ok()) return s;
  if (source->engine == "forward" && !config.origins.empty())
    return base::invalid("a model of engine forward has 'parameters', not 'origin_parameters'");
  std::vector<size_t> groups;
  auto places = config.places(source->engine, options_.devices, &groups);
  if (!places) return places.error();
  Plan plan{
      folder,           config, version, std::move(*source), config.wanted(folder.name, version), std::move(*places),
      std::move(groups)};
  plan.wanted.engine = plan.source.engine;
  if (config.sequence) add_sequence_tensors(*config.sequence, plan.wanted);
  plan.wanted.instances = uint32_t(plan.places.size());
  plan.wanted.configured.devices = plan.places;
  const auto& choosy = options_.devices.engines;
  if (std::find(choosy.begin(), choosy.end(), plan.source.engine) == choosy.end())
    plan.wanted.configured.devices.assign(plan.places.size(), "cpu");
  return plan;
}

// The engines of a version, which live as long as its Served. Set by the thread that loads, and read once it has.
struct Loader::Living {
  std::vector<const sched::Engine*> engines;
  const sched::DecoupledEngine* decoupled = nullptr;

  void watch(const Instances& instances) {
    for (const auto& engine : instances.engines) engines.push_back(engine.get());
    decoupled = instances.decoupled.get();
  }
  bool any() const {
    return (decoupled && decoupled->serves_on()) || std::any_of(engines.begin(), engines.end(), [](const auto* engine) {
             return engine->health() == sched::Engine::Health::kAlive;
           });
  }
};

std::function<void(base::Status)> Loader::when_broken(const Plan& plan, const std::shared_ptr<bus::Served>& served,
                                                      std::shared_ptr<const Living> living) const {
  return [report = hooks_.on_broken, model = plan.folder.name, version = plan.version, weak = std::weak_ptr(served),
          living = std::move(living)](base::Status why) {
    report({model, version, weak, std::move(why), [living] { return living->any(); }});
  };
}

// One engine for each instance; one in all where calls run on their shard.
base::Result<Loader::Instances> Loader::make_instances(const Plan& plan,
                                                       const std::function<void(base::Status)>& broken,
                                                       const Made& all_made) const {
  Instances instances;
  const auto& make = engines_.at(plan.source.engine);
  for (uint32_t i = 0; i < plan.places.size(); ++i) {
    if (!hooks_.loading()) return is_ending();
    auto of_instance = on_device(plan.wanted, plan.places[i]);
    auto made = make({of_instance, plan.source.file, i, slabs_, broken, hooks_.loading, hooks_.turn, nullptr, all_made,
                      hooks_.aside});
    if (!made) return for_clients(made.error(), plan.folder, plan.version, plan.source.engine);
    if (plan.config.preprocess && !std::holds_alternative<std::unique_ptr<sched::Engine>>(*made))
      return base::failure(base::Code::kUnimplemented,
                           "preprocess is for models of tensors that answer each request once");
    if (auto s = serves_adapters(*made, plan.wanted); !s.ok()) return s;
    instances.probes.push_back(readiness_probe_of(*made));
    if (auto* model = std::get_if<generation::TokenModel>(&*made)) {
      if (auto s = one_on_each(plan.places, model->other_places.size() + 1); !s.ok()) return s;
      instances.token_models.push_back(std::move(*model));
      continue;
    }
    if (auto* decoupled = std::get_if<std::unique_ptr<sched::DecoupledEngine>>(&*made)) {
      instances.decoupled = std::move(*decoupled);
      break;
    }
    if (auto* remote = std::get_if<sched::RemoteModel>(&*made)) {
      instances.remote = std::move(*remote);
      break;
    }
    auto reshaped = as_clients_see_it(std::get<std::unique_ptr<sched::Engine>>(std::move(*made)), plan.config, slabs_);
    if (!reshaped) return reshaped.error();
    auto& engine = instances.engines.emplace_back(std::move(*reshaped));
    if (engine->is_inline()) break;
  }
  return instances;
}

void Loader::make_inbox(bus::Served& served, const msg::ModelSpec& spec, Instances instances, const ModelConfig& config,
                        Limiter own) const {
  auto& [engines, token_models, decoupled, remote, beside, first, probes] = instances;
  if (remote)
    served.inbox = remote->make_inbox(spec, served.stats);
  else if (decoupled)
    served.inbox = sched::make_decoupled(std::move(decoupled), spec, served.stats, options_.share, deadline_timer_);
  else if (!token_models.empty())
    served.inbox = generation::make_inbox(std::move(token_models), spec, served.stats);
  else if (engines.front()->is_inline())
    served.inbox = sched::make_inline(std::move(engines.front()), spec, served.stats);
  else
    served.inbox = sched::make_lanes(std::move(engines), spec, served.stats, slabs_, deadline_timer_, first);
  if (limiter_) served.inbox = sched::behind(limiter_, std::move(served.inbox), spec, served.stats, deadline_timer_);
  limit(served, std::move(own));
  if (beside) {
    const uint32_t enough = beside->local_first.value_or(spec.instances * std::max(spec.max_batch, 1u));
    served.inbox = sched::make_local_first(std::move(served.inbox), *beside, spec, served.stats, enough);
  }
  cache(served, config);
}

base::Result<std::shared_ptr<bus::Served>> Loader::load(const Plan& plan) const {
  const base::Time began = base::steady_now();
  auto served = std::make_shared<bus::Served>();
  keep_durations(*served, options_.durations, plan.config);
  auto living = std::make_shared<Living>();
  const auto made = std::make_shared<std::atomic<bool>>(false);
  auto instances = make_instances(plan, when_broken(plan, served, living), made);
  if (!instances) return instances.error();
  auto spec = merge(plan.wanted, plan.config, instances->spec(), instances->remote ? UINT32_MAX : options_.max_batch);
  if (!spec) return spec.error();
  if (instances->remote) {
    if (auto s = remote_fits(plan.config); !s.ok()) return s;
    spec->batching.dynamic = false;  // whoever runs it forms the batches
    spec->parameters = instances->remote->spec.parameters;
  }
  spec->details = with_files(spec->details, plan.folder, plan.version);
  if (!plan.wanted.parameters.count("device")) spec->parameters.erase("device");  // each instance has its own
  if (auto s = add_labels(plan.folder, plan.config, *spec); !s.ok()) return s;
  narrow(*spec, instances->token_models);
  if (instances->decoupled)
    if (auto s = warm_up(*instances->decoupled, *spec, plan.folder, plan.config.warm_up, hooks_.loading); !s.ok())
      return base::failure(s.code, plan.folder.without_root(s.text));
  for (auto& engine : instances->engines)
    if (auto s = warm_up(*engine, *spec, plan.folder, plan.config.warm_up, slabs_); !s.ok())
      return base::failure(s.code, plan.folder.without_root(s.text));
  if (auto s = limit_rate(plan, *instances); !s.ok()) return s;
  living->watch(*instances);
  if (auto s = add_origins(plan, *spec, *instances); !s.ok()) return s;
  if (plan.config.memory)  // which they are a part of
    for (auto& model : instances->token_models) model.adapter_bytes = 0;
  auto memory = memory_of(instances->engines, instances->token_models, *spec,
                          estimated_bytes(plan.folder, plan.config, plan.version, *spec));
  if (instances->token_models.size() == 1) served->adapters = instances->token_models.front().engine->adapter_loader();
  auto probes = std::move(instances->probes);
  auto loaded = with_inbox(plan, std::move(*spec), std::move(*instances), std::move(served));
  if (loaded) note_load(**loaded, plan.config, began, std::move(memory), std::move(probes));
  made->store(true);
  return loaded;
}

base::Result<std::shared_ptr<bus::Served>> Loader::with_inbox(const Plan& plan, msg::ModelSpec spec,
                                                              Instances instances,
                                                              std::shared_ptr<bus::Served> served) const {
  if (plan.config.sequence) return load_sequences(plan, std::move(spec), std::move(instances), std::move(served));
  served->spec = std::move(spec);
  make_inbox(*served, served->spec, std::move(instances), plan.config, own_limiter(plan.config));
  return served;
}

base::Result<std::shared_ptr<bus::Served>> Loader::load(const ModelFolder& folder, const ModelConfig& config,
                                                        uint64_t version) const {
  auto planned = plan(folder, config, version);
  if (!planned) return planned.error();
  try {
    return load(*planned);
  } catch (const std::bad_alloc&) {
    return base::failure(base::Code::kResourceExhausted, "there is not enough memory to load it");
  } catch (const std::system_error& e) {
    return base::failure(base::Code::kResourceExhausted, "no thread could be started to run it: " + e.code().message());
  } catch (const std::exception& e) {
    return base::failure(base::Code::kInternal, "loading failed: " + folder.without_root(e.what()));
  }
}

}  // namespace weir::models
