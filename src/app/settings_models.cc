// The settings of the model repository, of the engines, and of the devices.
#include "app/setting_rows.h"
#include "base/units.h"

namespace weir::app {
namespace {

// "R1:4", "R2:1".
Setting resources(std::string_view key, std::string_view help, std::map<std::string, uint32_t>& place) {
  Setting s;
  s.key = key, s.unit = "NAME:COUNT", s.help = help;
  s.form = Setting::ValueKind::kList;
  s.set = [&place](const Setting::Values& values) -> base::Status {
    std::map<std::string, uint32_t> read;
    for (const auto& value : values) {
      const size_t colon = value.rfind(':');
      auto count = base::parse_count(colon == value.npos ? "" : value.substr(colon + 1), UINT32_MAX);
      if (!count || colon == 0) return base::invalid("expected NAME:COUNT, got '" + value + "'");
      read[value.substr(0, colon)] = uint32_t(*count);
    }
    place = std::move(read);
    return {};
  };
  s.get = [&place] {
    Setting::Values out;
    for (const auto& [name, count] : place) out.push_back(name + ':' + std::to_string(count));
    return out;
  };
  return s;
}

void add_repository(std::vector<Setting>& rows, Config& c) {
  using models::Control;
  Setting roots = list("models.repository", "DIR", "folder with models (or several)", c.models.roots);
  roots.path = true;
  rows.push_back(named(std::move(roots), "--models"));
  rows.push_back(base::setting::text("models.default", "NAME",
                                     "for requests that name no model, where it has what they need",
                                     c.models.default_model));
  rows.push_back(
      named(choice<Control>("models.control", "how models come and go: none, poll, explicit, demand", c.models.control,
                            {{"none", Control::kNone},
                             {"poll", Control::kPoll},
                             {"explicit", Control::kExplicit},
                             {"demand", Control::kDemand}}),
            "--control"));
  rows.push_back(duration("models.poll_interval", "how often the repository is read with control: poll",
                          c.models.poll_interval, std::chrono::milliseconds(10)));
  rows.push_back(named(list("models.startup", "NAME",
                            "with control: explicit or demand, models to load at start; * = all", c.models.startup),
                       "--load"));
  rows.push_back(
      size("models.memory",
           "with control: demand, what models in memory may take; the least recently used leave; 0 = no limit",
           c.models.memory, 0, uint64_t(1) << 50));
  rows.push_back(duration("models.load_timeout", "with control: demand, how long a request waits for its model",
                          c.models.waiting.longest, std::chrono::milliseconds(1)));
  rows.push_back(count("models.load_queue", "with control: demand, requests that wait for one model to be loaded",
                       c.models.waiting.most, 1, 1u << 20));
  rows.push_back(
      count("models.load_threads",
            "models loaded beside each other; 0 = as many as there are cores, 2 to 4; with control: demand 1",
            c.models.load_threads, 0, 64));
  rows.push_back(resources("models.resources",
                           "resources of rate limiters, on each device; others: the most that an instance asks for",
                           c.models.resources));
  using Missing = models::DeviceSupply::Missing;
  rows.push_back(choice<Missing>("models.missing_devices",
                                 "what becomes of instances whose GPU is not there: error, cpu",
                                 c.models.devices.missing, {{"error", Missing::kError}, {"cpu", Missing::kCpu}}));
  rows.push_back(named(flag("models.strict", "a model that fails at start ends the server (exit 4)", c.models.strict),
                       "--strict"));
  using Rule = bus::ReadinessRule;
  rows.push_back(
      named(choice<Rule>("models.readiness", "when the server is ready: strict (all models are), any (one is), process",
                         c.readiness, {{"strict", Rule::kStrict}, {"any", Rule::kAny}, {"process", Rule::kProcess}}),
            "--readiness"));
  rows.push_back(flag("models.allow_config_override", "load requests may bring a configuration and files",
                      c.models.allow_config_override));
  Setting adapters = list("models.adapter_roots", "DIR",
                          "folders with LoRA adapters that requests may load and unload by path; none: they may not",
                          c.models.adapter_roots);
  adapters.path = true;
  rows.push_back(named(std::move(adapters), "--adapter-roots"));
  rows.push_back(size("models.response_cache",
                      "memory for cached answers of models with response_cache; the least recently used go; 0 = none",
                      c.models.response_cache, 0, uint64_t(1) << 40));
  rows.push_back(count("models.max_concurrency", "calls inside the engines at once, of all models; 0 = any number",
                       c.models.max_concurrency));
  rows.push_back(count("models.max_batch", "largest batch of models that can be batched and name no size",
                       c.models.max_batch, 1, 65536));
  rows.push_back(flag("models.batching.dynamic", "calls may share a batch", c.models.batching.dynamic));
  rows.push_back(duration("models.batching.max_delay",
                          "longest wait of a call for others to share its batch, with an idle engine",
                          c.models.batching.max_delay));
  rows.push_back(count("models.batching.priority_levels", "0 = priorities are ignored",
                       c.models.batching.priority_levels, 0, 1000));
  rows.push_back(count("models.batching.max_queue",
                       "calls, or sequences, that wait for one model, at each priority; 0 = any number",
                       c.models.batching.max_queue));
  rows.push_back(duration("models.batching.queue_timeout", "longest wait; 0 = as long as the client waits",
                          c.models.batching.queue_timeout));
}

void add_engines(std::vector<Setting>& rows, Config& c) {
  rows.push_back(
      named(path("engines.onnx.library", "ONNX Runtime's libonnxruntime.so", c.onnx.library), "--onnx-library"));
  rows.push_back(named(count("engines.onnx.intra_op_threads", "threads of one model instance; 0 = one per core",
                             c.onnx.intra_op_threads, 0, 1024),
                       "--onnx-threads"));
  rows.push_back(count("engines.onnx.inter_op_threads", "threads for operators that run in parallel",
                       c.onnx.inter_op_threads, 0, 1024));
  rows.push_back(
      choice<std::string>("engines.onnx.graph_optimization", "disable, basic, extended, all", c.onnx.graph_optimization,
                          {{"disable", "disable"}, {"basic", "basic"}, {"extended", "extended"}, {"all", "all"}}));
  Setting custom_ops = list("engines.onnx.custom_ops", "FILE",
                            "libraries of operators of your own (RegisterCustomOps), for all models; their code runs "
                            "in the server; repeatable",
                            c.onnx.custom_ops);
  custom_ops.path = true;
  rows.push_back(std::move(custom_ops));
  rows.push_back(flag("engines.onnx.memory_arena", "keep freed memory for the next step", c.onnx.memory_arena));
  rows.push_back(flag("engines.process.enabled", "models may bring code of their own (engines process and python)",
                      c.processes.enabled));
  rows.push_back(
      text("engines.python.interpreter", "NAME", "Python with numpy, for engine python", c.processes.interpreter));
}

void add_devices(std::vector<Setting>& rows, Config& c) {
  using Use = device::DeviceOptions::Use;
  constexpr uint64_t kG = 1 << 30;
  rows.push_back(choice<Use>("device.cuda", "auto (where there is a GPU), off", c.device.cuda,
                             {{"auto", Use::kAuto}, {"off", Use::kOff}}));
  using OnFault = device::DeviceOptions::OnFault;
  rows.push_back(choice<OnFault>("device.on_fault",
                                 "a GPU is lost: exit (drain, code 5), reload its models, auto (exit where a service "
                                 "manager or a container starts the server again)",
                                 c.device.on_fault,
                                 {{"auto", OnFault::kAuto}, {"exit", OnFault::kExit}, {"reload", OnFault::kReload}}));
  rows.push_back(path("device.module", "libweir_cuda.so; empty = beside weir", c.device.module));
  rows.push_back(size("device.pinned_pool", "with CUDA: pinned memory, in place of limits.slab_budget; 0 = not pinned",
                      c.pinned_pool, 0, 1024 * kG));
  rows.push_back(size("device.batch_memory", "device memory for batches, per GPU; batches beyond it wait",
                      c.device.batch_memory, uint64_t(1) << 20, 1024 * kG));
  rows.push_back(count("device.memory_share", "% of a GPU's free memory that a token model takes for keys and values",
                       c.device.memory_share, 1, 100));
}

}  // namespace

void add_models(std::vector<Setting>& rows, Config& c) {
  add_repository(rows, c);
  add_engines(rows, c);
  add_devices(rows, c);
}

}  // namespace weir::app
