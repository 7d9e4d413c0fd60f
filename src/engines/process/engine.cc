#include "engines/process/engine.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/units.h"
#include "engines/process/batch_engine.h"
#include "engines/process/decoupled.h"
#include "engines/process/host.h"
#include "worker_py.h"

namespace weir::process {
namespace {

using base::Code;
using base::failure;
using base::Status;

const std::string& parameter(const msg::ModelSpec& spec, const std::string& name, const std::string& otherwise) {
  auto found = spec.parameters.find(name);
  return found == spec.parameters.end() ? otherwise : found->second;
}

Status wrong(const std::string& name, const Status& why) {
  return base::invalid("parameter '" + name + "': " + why.text);
}

Status read_limits(const msg::ModelSpec& wanted, HostOptions& options) {
  for (auto [name, otherwise, to] : {std::tuple("process_timeout", "60s", &options.timeout),
                                     std::tuple("process_load_timeout", "300s", &options.load_timeout)}) {
    auto value = base::parse_duration(parameter(wanted, name, otherwise));
    if (!value) return wrong(name, value.error());
    if (value->count() <= 0) return base::invalid(std::string("parameter '") + name + "' must be > 0");
    *to = *value;
  }
  for (auto [name, otherwise, to] : {std::tuple("process_memory", "0", &options.child.memory),
                                     std::tuple("process_answer", kMostAnswer, &options.most_answer)}) {
    auto value = base::parse_size(parameter(wanted, name, otherwise));
    if (!value) return wrong(name, value.error());
    *to = *value;
  }
  return {};
}

std::vector<std::string> split_words(const std::string& text) {
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    if (end > at) words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

// Suppresses `broken` until the model serves: before that, load() itself returns the child's end as an error.
struct Serving {
  std::atomic<bool> serves{false};
  std::function<void(Status)> broken;
};

base::Result<Loaded> make_batched(std::unique_ptr<Host> host, Requests form, const Place& place) {
  const int wake = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake < 0) return failure(Code::kResourceExhausted, "there is no file descriptor left for a model (ulimit -n)");
  auto probe = host->readiness();
  auto engine = std::make_unique<BatchEngine>(std::move(host), form, place.find, wake);
  engine->set_readiness_probe(std::move(probe));
  return Loaded(std::unique_ptr<sched::Engine>(std::move(engine)));
}

Status check_enabled(const Options& options) {
  if (options.enabled) return {};
  return failure(Code::kPermissionDenied,
                 "models with code of their own are off here; engines.process.enabled: true allows them");
}

base::Result<Loaded> start(const msg::ModelSpec& wanted, HostOptions options, const Place& place,
                           Requests form = Requests::kOfEachCall) {
  if (Status s = read_limits(wanted, options); !s.ok()) return s;
  auto serving = std::make_shared<Serving>();
  serving->broken = place.broken;
  options.child.model = wanted.name;
  options.child.ended = [serving](const Status& why) {
    if (serving->serves.load() && serving->broken) serving->broken(why);
  };
  options.instance = place.instance;
  options.loading = place.loading;
  options.has_side = form == Requests::kOfEachCall;  // an engine of the server's own asks for nothing
  options.rest = place.rest;
  options.side = {wanted.name, options.most_answer, place.metrics, place.control, place.find, place.slabs.ledger()};
  std::vector<std::unique_ptr<Host>> hosts;
  // The loader asks for the instances of a model one by one, but of a decoupled one only once.
  for (uint32_t n = 1; hosts.size() < n; ++options.instance) {
    auto host = Host::load(wanted, options, place.slabs);
    if (!host) return std::move(host).error();
    if ((*host)->spec().decoupled) n = std::max(wanted.instances, 1U);
    hosts.push_back(std::move(*host));
  }
  serving->serves.store(true);
  for (const auto& host : hosts)
    if (host->child().over()) return host->child().why();
  if (!hosts.front()->spec().decoupled) return make_batched(std::move(hosts.front()), form, place);
  auto decoupled = make_decoupled(std::move(hosts), place.find, {place.slabs.ledger(), place.options.share});
  if (!decoupled) return decoupled.error();
  return Loaded(std::move(*decoupled));
}

}  // namespace

base::Result<Loaded> load(const msg::ModelSpec& wanted, const std::string& file, const Place& place) {
  if (Status s = check_enabled(place.options); !s.ok()) return s;
  HostOptions options;
  options.child.command = split_words(parameter(wanted, "command", ""));
  if (options.child.command.empty())
    return base::invalid("engine 'process' takes the parameter 'command': the program to run, and its arguments");
  options.child.folder = options.file = file;
  msg::ModelSpec spec = wanted;
  spec.engine = "process";
  if (spec.platform.empty()) spec.platform = "process";
  return start(spec, std::move(options), place);
}

base::Result<Loaded> load_python(const msg::ModelSpec& wanted, const std::string& file, const Place& place) {
  if (Status s = check_enabled(place.options); !s.ok()) return s;
  if (wanted.parameters.count("EXECUTION_ENV_PATH"))
    return failure(Code::kUnimplemented,
                   "parameter 'EXECUTION_ENV_PATH' is not served: engines.python.interpreter names the interpreter");
  HostOptions options;
  options.child.command = {place.options.interpreter, "/proc/self/fd/" + std::to_string(kScriptFd)};
  options.child.script = kWorkerPy;
  options.takes_many = true;
  options.any_shape = true;  // Triton does not look, and models rely on it: [n] where [-1,1] is configured
  options.file = file;
  msg::ModelSpec spec = wanted;
  spec.engine = "python";
  if (spec.platform.empty()) spec.platform = "python";
  return start(spec, std::move(options), place);
}

base::Result<std::unique_ptr<sched::Engine>> load_isolated(const msg::ModelSpec& wanted, const std::string& file,
                                                           const Place& place) {
  HostOptions options;
  options.child.command = place.options.engine_command;
  options.child.command.insert(options.child.command.end(), {wanted.engine, wanted.name});
  options.file = file;
  auto loaded = start(wanted, std::move(options), place, Requests::kOfTheBatch);
  if (!loaded) return std::move(loaded).error();
  if (auto* engine = std::get_if<std::unique_ptr<sched::Engine>>(&*loaded)) return std::move(*engine);
  return failure(Code::kInternal,
                 "the process of model '" + wanted.name + "' says that it answers any number of times");
}

}  // namespace weir::process
