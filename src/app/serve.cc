#include "app/serve.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <future>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "app/front.h"
#include "app/memory.h"
#include "app/reserve.h"
#include "app/secrets.h"
#include "app/shortage.h"
#include "app/version.h"
#include "engines/identity/identity.h"
#include "engines/llm/llm.h"
#include "engines/llm/options.h"
#include "engines/llm/parrot.h"
#include "engines/onnx/runtime.h"
#include "net/signals.h"

namespace weir::app {
namespace {

constexpr auto kLastCalls = std::chrono::seconds(5);  // for engines to notice that nobody waits any more

constexpr auto kLastLines = std::chrono::seconds(1);
constexpr auto kDrainWatch = std::chrono::milliseconds(500);

void say(const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); }

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
  return options;
}

// A new engine is one line here.
std::map<std::string, models::EngineMaker> engines(onnx::Runtime& onnx, device::Devices& devices, uint32_t pinned) {
  return {
      {"identity",
       [&devices](const models::LoadArgs& a) {
         return identity::load(a.wanted, {&devices, &a.slabs, a.broken});
       }},
      {"llm",
       [&devices, pinned](const models::LoadArgs& a) {
         return llm::load(a.wanted, a.file, {&devices, a.broken, pinned});
       }},
      {"parrot", [](const models::LoadArgs& a) { return llm::load_parrot(a.wanted); }},
      {"onnx", [&onnx](const models::LoadArgs& a) { return onnx.load(a.wanted, a.file, a.slabs); }},
  };
}

// The parameters that each engine takes in a model.yaml.
std::map<std::string, std::vector<std::string_view>> engine_parameters() {
  auto all = [](const auto& names) { return std::vector<std::string_view>(std::begin(names), std::end(names)); };
  auto parrot = all(llm::kParameters);
  parrot.emplace_back("step_us");
  return {{"identity", all(identity::kParameters)},
          {"llm", all(llm::kParameters)},
          {"parrot", parrot},
          {"onnx", all(onnx::kParameters)}};
}

// The repository's, with what this machine has.
models::RepositoryOptions repository_options(const Config& config, device::Devices& devices) {
  auto options = config.models;
  options.devices.gpus = uint32_t(devices.cuda_count());
  options.devices.engines = {"identity", "llm"};
  options.parameters.merge(engine_parameters());
  return options;
}

uint32_t shards_of(const Config& config) {
  return config.shards ? config.shards : std::max(1u, std::thread::hardware_concurrency());
}

// Shards that keep to a core each, the first ones. One alone goes where it likes.
uint32_t pinned_shards(const Config& config) {
  uint32_t count = shards_of(config);
  return config.pin && count > 1 ? count : 0;
}

net::ServerOptions server_options(const Config& config) {
  net::ServerOptions options;
  using wire::AdminMethods;
  auto beside = config.admin_listen.empty() ? AdminMethods::kServed : AdminMethods::kElsewhere;
  for (const auto& address : config.listen) options.listen.push_back({address, beside});
  for (const auto& address : config.admin_listen) options.listen.push_back({address, AdminMethods::kServed});
  options.tls = config.tls;
  options.max_connections = config.connections;
  options.share.percent = config.limits.client_share;
  options.proxy_protocol = base::NetworkList::parse(config.proxy_protocol).value();
  options.drain_delay = config.drain_delay;
  options.drain_timeout = config.drain_timeout;
  return options;
}

// Null where references to the web are off.
base::Result<std::unique_ptr<net::WebFetcher>> make_fetcher(net::Shard& shard, const Config& config) {
  std::unique_ptr<net::WebFetcher> none;
  if (!config.evergreen_on || config.fetch.schemes.empty()) return none;
  auto made = net::WebFetcher::make(shard, config.fetch, config.evergreen.references.max_bytes);
  if (made) return made;
  return base::failure(made.error().code, "evergreen.references: " + made.error().text);
}

void set_up_logs(const Config& config) {
  using base::log::Level;
  for (auto level : {Level::kVerbose, Level::kInfo, Level::kWarning, Level::kError})
    base::log::enable(level, level >= config.log_level);
  if (config.log_level == Level::kVerbose) base::log::set_verbosity(1);
  base::log::set_format(config.log_format);
}

base::Status check_root(const std::string& root) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::exists(root, error)) return base::invalid("model repository '" + root + "' is not there");
  if (root.ends_with(".onnx") && fs::is_regular_file(root, error)) return {};
  if (!fs::is_directory(root, error))
    return base::invalid("model repository '" + root + "' is neither a folder nor an .onnx file");
  const fs::path folder = root;
  for (const char* file : {"1/model.onnx", "1/config.json"})
    if (fs::exists(folder / file, error))
      return base::invalid("'" + root + "' is a model, not a repository: serve the folder that it lies in");
  if (fs::exists(folder / "model.onnx", error))
    return base::invalid("'" + root + "' is a model's folder, not a repository: serve " +
                         (folder / "model.onnx").string() + ", or the folder that it lies in");
  return {};
}

base::Status check_roots(const Config& config) {
  if (config.models.roots.empty())
    return base::invalid("no model repository: give a folder (weir serve DIR) or set models.repository");
  for (const auto& root : config.models.roots)
    if (auto s = check_root(root); !s.ok()) return s;
  return {};
}

std::string model_table(const bus::Catalog& catalog) {
  size_t wide = 5;
  for (const auto& row : catalog.index) wide = std::max(wide, row.name.size() + row.version.size() + 1);
  std::string out;
  for (const auto& row : catalog.index) {
    std::string name = row.name + (row.version.empty() ? "" : "/" + row.version);
    out += "  " + name + std::string(wide + 2 - name.size(), ' ') + std::string(bus::name(row.state));
    out += (row.reason.empty() ? "" : ": " + row.reason) + '\n';
  }
  return out.empty() ? "  (no models)\n" : out;
}

// The server as one object, so that its parts end in the right order.
class Serving {
 public:
  explicit Serving(const Config& config);
  ~Serving();
  Exit run();

 private:
  using Phase = Commons::Phase;

  // Rung by whichever thread frees a slab, also when the server is gone.
  struct Bell {
    std::mutex mutex;
    net::Server* server = nullptr;  // under mutex
  };

  base::Status open();
  Exit start();
  void publish(std::shared_ptr<const bus::Catalog> catalog, std::function<void()> settled);
  std::shared_ptr<const bus::Catalog> catalog() const;
  void on_signal(int signal);
  bool wait_for_drain();
  void enter(Phase phase);
  void on_overload(base::Overload step);
  std::string what_is_guarded() const;
  std::string url(const std::string& address) const;
  void greet() const;
  void finish_calls();
  void write_families(std::string& out);

  const Config& config_;
  Commons commons_;
  onnx::Runtime onnx_;
  std::vector<std::unique_ptr<net::Shard>> shards_;
  std::vector<std::unique_ptr<Front>> fronts_;
  mutable std::mutex mutex_;
  std::shared_ptr<const bus::Catalog> latest_;  // under mutex_
  models::Repository repository_;
  const std::shared_ptr<Bell> bell_ = std::make_shared<Bell>();
  std::optional<net::Server> server_;
  std::optional<net::Signals> signals_;
  bool started_ = false;  // the shards run
  ReserveWatch reserve_watch_;
  std::promise<bool> drained_;
};

Serving::Serving(const Config& config)
    : config_(config),
      commons_(config),
      onnx_(onnx_options(config)),
      latest_(std::make_shared<const bus::Catalog>()),
      repository_(repository_options(config, commons_.gpus.devices()),
                  engines(onnx_, commons_.gpus.devices(), pinned_shards(config)), commons_.slabs,
                  [this](auto catalog, auto settled) { publish(std::move(catalog), std::move(settled)); }) {
  commons_.repository = &repository_;
  commons_.metrics.collect([this](std::string& out) { write_families(out); });
}

// Shards, their fronts and the listeners, in that order.
base::Status Serving::open() {
  if (config_.access_log != "off") {
    auto log = ops::AccessLog::open(config_.access_log, commons_.metrics);
    if (!log) return log.error();
    commons_.access_log = std::move(*log);
  }
  uint32_t count = shards_of(config_);
  net::Pin pin = pinned_shards(config_) > 0 ? net::Pin::kYes : net::Pin::kNo;
  auto tokens = bearer_tokens(config_.salience);
  if (!tokens) return tokens.error();
  commons_.salience = {config_.salience.default_model, std::move(*tokens), config_.anonymous};
  auto keys = api_keys(config_.openai);
  if (!keys) return keys.error();
  commons_.api_keys = std::move(*keys);
  commons_.quota.emplace(commons_.salience.tenants(), &commons_.memory);
  commons_.purse.emplace(config_.evergreen.tenant_bytes, config_.evergreen.total_bytes, &commons_.memory);
  commons_.purse->set_share({config_.limits.client_share, 0});
  commons_.homes.emplace(count, [this](base::ShardId shard, std::function<void()> work) {
    shards_[size_t(shard)]->post(std::move(work));
  });
  std::vector<net::Shard*> shards;
  std::vector<wire::CodecEnv> envs;
  for (uint32_t i = 0; i < count; ++i) {
    shards.push_back(shards_.emplace_back(std::make_unique<net::Shard>(base::ShardId(i), pin)).get());
    shards.back()->spin(config_.spin);
    auto fetcher = make_fetcher(*shards.back(), config_);
    if (!fetcher) return fetcher.error();
    fronts_.push_back(std::make_unique<Front>(*shards.back(), commons_, std::move(*fetcher)));
    envs.push_back(fronts_.back()->codec_env());
  }
  commons_.memory.on_step([this](base::Overload step) { on_overload(step); });
  server_.emplace(shards, envs, server_options(config_), commons_.metrics);
  {
    std::lock_guard lock(bell_->mutex);
    bell_->server = &*server_;
  }
  commons_.slabs.on_room([bell = bell_] {
    std::lock_guard lock(bell->mutex);
    if (bell->server) bell->server->resume_reading();
  });
  return server_->bind();
}

// kOk: it serves.
Exit Serving::start() {
  if (auto s = open(); !s.ok()) {
    say("weir: " + s.text);
    bool settings = s.code == base::Code::kInvalidArgument || s.code == base::Code::kFailedPrecondition;
    return settings ? Exit::kUsage : Exit::kBind;  // certificates are settings, too
  }
  for (auto& shard : shards_) shard->start();
  started_ = true;
  signals_.emplace(*shards_[0], [this](int signal) { on_signal(signal); });
  server_->start();
  if (auto s = repository_.start(); !s.ok()) {
    say("weir: " + s.text);
    return Exit::kModels;
  }
  enter(Phase::kServing);
  if (!keep_reserve()) throw std::bad_alloc();  // it would serve, and have no memory to end with
  greet();
  if (space_is_limited()) shards_[0]->post([this] { reserve_watch_.look(shards_[0]->env()); });
  return Exit::kOk;
}

Exit Serving::run() {
  try {
    if (auto exit = start(); exit != Exit::kOk) return exit;
  } catch (const std::exception& e) {  // some threads run, others do not: there is no orderly end
    base::log::flush(kLastLines);
    say(shortage(e));
    std::_Exit(int(Exit::kFailed));
  }
  if (!wait_for_drain()) base::log::warning("requests were cut off at the end of shutdown.drain_timeout");
  return Exit::kOk;
}

// True: nothing was cut off. The drain keeps its own time; where it cannot (for want of memory, its timers among it),
// the process ends here.
bool Serving::wait_for_drain() {
  auto drained = drained_.get_future();
  std::optional<std::chrono::steady_clock::time_point> end;
  while (drained.wait_for(kDrainWatch) != std::future_status::ready) {
    const auto now = std::chrono::steady_clock::now();
    if (commons_.phase.load() != Phase::kDraining) continue;
    if (!end) end = now + config_.drain_delay + config_.drain_timeout + kLastCalls;
    if (now < *end) continue;
    say("weir: the drain did not end in its time: ended without it");
    std::_Exit(int(Exit::kFailed));
  }
  return drained.get();
}

// Draining is for good.
void Serving::enter(Phase phase) {
  auto now = commons_.phase.load();
  while (now < phase && !commons_.phase.compare_exchange_weak(now, phase)) continue;
  for (auto& front : fronts_) front->phase_changed();
}

// On whichever thread has found it.
void Serving::on_overload(base::Overload step) {
  log_overload(commons_.memory, step);
  for (auto& front : fronts_) front->readiness_changed();
}

void Serving::publish(std::shared_ptr<const bus::Catalog> catalog, std::function<void()> settled) {
  {
    std::lock_guard lock(mutex_);
    latest_ = catalog;
  }
  if (fronts_.empty()) return settled();
  auto left = std::make_shared<std::atomic<size_t>>(fronts_.size());
  for (auto& front : fronts_)
    front->publish(catalog, [left, settled] {
      if (left->fetch_sub(1) == 1) settled();
    });
}

std::shared_ptr<const bus::Catalog> Serving::catalog() const {
  std::lock_guard lock(mutex_);
  return latest_;
}

void Serving::write_families(std::string& out) {
  auto now = catalog();
  ops::append_models(out, *now);
  ops::append_tokens(out, *now);
  const auto& compat = config_.metrics_compat;
  auto also = [&](const char* names) { return std::find(compat.begin(), compat.end(), names) != compat.end(); };
  if (also("triton")) ops::append_triton(out, *now);
  if (also("vllm")) ops::append_vllm(out, *now);
  ops::append_process(out, kVersion);
  auto gauge = [&](const std::string& name, const char* help, uint64_t value) {
    out += "# HELP " + name + ' ' + help + "\n# TYPE " + name + " gauge\n" + name + ' ' + std::to_string(value) + '\n';
  };
  gauge("weir_slab_bytes", "Memory that requests, batches and answers hold now.", commons_.slabs.used());
  gauge("weir_slab_idle_bytes", "Memory kept for the next ones, beside that.", commons_.slabs.idle());
  gauge("weir_slab_budget_bytes", "limits.slab_budget: beyond it peers are read more slowly.",
        commons_.memory.budget());
  append_memory(out, commons_.memory);
  commons_.gpus.write_families(out, commons_.slabs, also("triton") ? Gpus::Names::kTritonsToo : Gpus::Names::kOurs);
}

// On the first shard.
void Serving::on_signal(int signal) {
  if (signal == SIGHUP) {
    if (auto s = server_->reload_tls(); !s.ok())
      base::log::error("certificates stay as they are", {{"reason", s.text}});
    repository_.rescan([] { base::log::info("reloaded"); });
  } else if (signal == SIGUSR1) {
    if (commons_.access_log) commons_.access_log->reopen();
  } else {
    // Whoever asks twice does not want to wait.
    if (commons_.phase.load() == Phase::kDraining) std::_Exit(128 + signal);
    bool loading = commons_.phase.load() == Phase::kLoading;
    base::log::info("shutting down", {{"signal", signal == SIGINT ? "SIGINT" : "SIGTERM"}});
    enter(Phase::kDraining);
    server_->drain([this, loading](bool clean) {
      if (loading) std::_Exit(int(Exit::kOk));  // the main thread is busy with a model that nobody will call
      drained_.set_value(clean);
    });
  }
}

std::string Serving::what_is_guarded() const {
  std::string guarded = commons_.api_keys.empty() ? "" : "keys guard the OpenAI endpoints";
  if (!commons_.salience.bearer_tokens.empty())
    guarded += (guarded.empty() ? "" : ", and ") + std::string("tokens guard Salience");
  return guarded.empty() ? "there is no authentication" : guarded + "; nothing guards the rest";
}

std::string Serving::url(const std::string& address) const {
  bool unix_socket = address.starts_with("unix:");
  return (unix_socket ? "" : config_.tls.certificate.empty() ? "http://" : "https://") + address;
}

void Serving::greet() const {
  using wire::AdminMethods;
  bool apart = !config_.admin_listen.empty();
  std::string text = "weir " + std::string(kVersion) + " is listening on";
  std::string first;
  for (const auto& address : server_->bound(apart ? AdminMethods::kElsewhere : AdminMethods::kServed)) {
    text += ' ' + url(address);
    if (first.empty() && !address.starts_with("unix:")) first = url(address);
  }
  auto now = catalog();
  text += "  (REST and gRPC on the same port)\n";
  if (apart) {
    text += "admin methods are served at";
    for (const auto& address : server_->bound(AdminMethods::kServed)) text += ' ' + url(address);
    text += '\n';
  }
  text += "models:\n" + model_table(*now);
  if (!first.empty())
    text += "try: curl -s " + first +
            (now->models.empty() ? std::string("/v2") : "/v2/models/" + now->models.begin()->first) + '\n';
  bool anyone = config_.tls.client_ca.empty();
  for (const auto& address : config_.listen)
    if (anyone && (address.starts_with("0.0.0.0") || address.starts_with("[::]")))
      text += "note: " + address + " is open to the network, and " + what_is_guarded() + '\n';
  std::fputs(text.c_str(), stderr);
}

// Calls whose clients are gone leave at their engine's next step; a step that never ends must not keep us.
void Serving::finish_calls() {
  auto end = std::chrono::steady_clock::now() + kLastCalls;
  for (auto& front : fronts_) {
    for (;;) {
      std::promise<uint32_t> open;
      front->shard().post([&] {
        front->bus().close();  // or a session that expires now would have the engine told
        open.set_value(front->bus().in_flight());
      });
      if (open.get_future().get() == 0) break;
      if (std::chrono::steady_clock::now() > end) {
        base::log::warning("an engine is still busy; leaving it");
        std::_Exit(int(Exit::kOk));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
}

// Nothing new comes in, then the last Calls come back, then everything may go.
Serving::~Serving() {
  repository_.stop();
  {
    std::lock_guard lock(bell_->mutex);
    bell_->server = nullptr;
  }
  server_.reset();
  if (started_) finish_calls();
  for (auto& shard : shards_) shard->stop();
  for (auto& shard : shards_) shard->join();
  signals_.reset();
  fronts_.clear();
  shards_.clear();
}

}  // namespace

Exit serve(const Config& config) {
  set_up_logs(config);
  if (auto s = check_roots(config); !s.ok()) {
    say("weir: " + s.text);
    return Exit::kUsage;
  }
  std::optional<Serving> serving;
  try {
    serving.emplace(config);
  } catch (const std::system_error& e) {
    say(shortage(e));
    return Exit::kFailed;
  } catch (const std::runtime_error& e) {
    say(std::string("weir: ") + e.what());
    return Exit::kUsage;
  }
  return serving->run();
}

Exit check_models(const Config& config) {
  set_up_logs(config);
  base::log::enable(base::log::Level::kInfo, false);
  base::log::enable(base::log::Level::kWarning, false);
  if (auto s = check_roots(config); !s.ok()) {
    say("weir: " + s.text);
    return Exit::kUsage;
  }
  device::Devices devices(config.device);
  device::SlabPool slabs(config.slab_budget);
  onnx::Runtime onnx(onnx_options(config));
  std::shared_ptr<const bus::Catalog> latest;
  models::RepositoryOptions options = repository_options(config, devices);
  options.control = models::Control::kNone;  // everything, whatever is loaded later
  models::Repository repository(options, engines(onnx, devices, 0), slabs, [&](auto catalog, auto settled) {
    latest = std::move(catalog);
    settled();
  });
  auto status = repository.start();
  repository.stop();
  std::printf("devices:\n%s", device_table(devices).c_str());
  std::printf("models:\n%s", model_table(*latest).c_str());
  bool bad = !status.ok();
  for (const auto& wrong : config.grps_on ? grps::check_routes(config.grps, *latest) : std::vector<std::string>()) {
    say("weir: " + wrong);
    bad = true;
  }
  for (const auto& row : latest->index) bad = bad || row.state != bus::ModelState::kReady;
  latest.reset();
  return bad ? Exit::kUsage : Exit::kOk;
}

}  // namespace weir::app
