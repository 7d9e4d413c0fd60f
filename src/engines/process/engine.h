// The engines of models that run in a process of their own: `process`, a program that speaks the protocol, and
// `python`, a model.py written for Triton's Python backend.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/client.h"
#include "base/status.h"
#include "engines/process/custom_metrics.h"
#include "msg/call.h"
#include "msg/readiness_probe.h"
#include "msg/spec.h"
#include "sched/decoupled_engine.h"
#include "sched/engine.h"

namespace weir::process {

// The server's settings engines.process.* and engines.python.*.
struct Options {
  bool enabled = true;                  // false: models that bring code of their own are refused
  std::string interpreter = "python3";  // of engine `python`; needs numpy
  // Starts this program as the child of load_isolated(); the engine's and the model's names follow.
  std::vector<std::string> engine_command{};
  base::ShareRule share{};  // of all memory that the answers of one client may take: limits.client_share
};

// A model that other models may send requests to. `keeps` holds it loaded.
struct Target {
  std::shared_ptr<const void> keeps;
  const msg::ModelSpec* spec = nullptr;
  msg::Inbox* inbox = nullptr;
  std::shared_ptr<msg::ReadinessProbe> readiness{};  // null: it is ready while it serves
};
// By name and version ("": the newest that is served). Any thread. Errors: those of bus::Catalog::find().
using FindModel = std::function<base::Result<Target>(std::string_view model, std::string_view version)>;

// Models load and unload other models by this: as clients of the repository's API do, and by the same rules. Any
// thread; `done` is called once, from any thread, also when this model is gone.
enum class Dependents : bool { kKeep, kUnload };
struct ModelControl {
  using Parameters = std::map<std::string, std::string>;
  using Done = std::function<void(const base::Status&)>;
  std::function<void(std::string model, Parameters parameters, Done done)> load{};  // null: models may do neither
  std::function<void(std::string model, Dependents dependents, Done done)> unload{};
};

struct Place {
  base::SlabSource& slabs;                   // where answers are copied to
  std::function<void(base::Status)> broken;  // called once for each child that has exited or was killed
  uint32_t instance = 0;
  Options options{};
  FindModel find{};                          // finds the models that this one sends requests to; null: it may send none
  std::shared_ptr<CustomMetrics> metrics{};  // null: those of its own are shown nowhere
  ModelControl control{};
  // Called while the model is being loaded, every 20 ms, by the thread that loads it. False: the server ends, and the
  // child is killed.
  std::function<bool()> loading{};
  // Memory shared with the child beyond what the last so long has needed is given back; it is looked at as often.
  std::chrono::milliseconds rest = std::chrono::seconds(10);
};

using Loaded = std::variant<std::unique_ptr<sched::Engine>, std::unique_ptr<sched::DecoupledEngine>>;

// `file`: the version's folder, in which the child is started. Parameters of the model: `command` (the program and its
// arguments, separated by spaces; a program with a slash is relative to the folder), `process_timeout` ("60s", of one
// batch), `process_load_timeout` ("300s"), `process_memory` ("0": no limit of its address space), `process_answer`
// ("1GiB", of the memory for one batch's answers). Errors: INVALID_ARGUMENT for a parameter, PERMISSION_DENIED where it
// is not enabled, FAILED_PRECONDITION with the child's words, UNAVAILABLE.
base::Result<Loaded> load(const msg::ModelSpec& wanted, const std::string& file, const Place& place);

// `file`: model.py. The same parameters but `command`; all others are the model's own.
base::Result<Loaded> load_python(const msg::ModelSpec& wanted, const std::string& file, const Place& place);

// The parameters of a model with `isolation: process`.
inline constexpr std::string_view kIsolationParameters[] = {"isolation", "process_timeout", "process_load_timeout",
                                                            "process_memory", "process_answer"};

// A model of one of the server's own engines, wanted.engine, in a process of its own: a fault inside of it costs its
// calls, and not the server. Parameters as above. Errors: as load(), and those of the engine's load.
base::Result<std::unique_ptr<sched::Engine>> load_isolated(const msg::ModelSpec& wanted, const std::string& file,
                                                           const Place& place);

}  // namespace weir::process
