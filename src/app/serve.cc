#include "app/serve.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <future>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <system_error>

#include "app/banner.h"
#include "app/cluster_node.h"
#include "app/engines.h"
#include "app/last_calls.h"
#include "app/memory.h"
#include "app/memory_watch.h"
#include "app/reloader.h"
#include "app/reserve.h"
#include "app/roots.h"
#include "app/server_options.h"
#include "app/service_notifier.h"
#include "app/shard_server.h"
#include "app/shortage.h"
#include "app/version.h"
#include "app/watchdog_ping.h"
#include "dialects/ops/host_metrics.h"
#include "net/server.h"
#include "net/signals.h"

namespace weir::app {
namespace {

constexpr auto kLastLines = std::chrono::seconds(1);  // for the log to be written
constexpr auto kLeastRest = std::chrono::seconds(1);  // for the last results, also at the end of the drain
constexpr auto kLastSpans = std::chrono::seconds(2);  // whatever the collector does with them
constexpr auto kDrainWatch = std::chrono::milliseconds(500);

// The server as one object, so that its parts end in the right order.
class Serving {
 public:
  Serving(const Config& config, LiveSettings& live);
  ~Serving();
  Exit run();

 private:
  using Phase = ServerState::Phase;

  // The server, for threads that free a slab; they may do so when it is gone.
  struct ServerRef {
    std::mutex mutex;
    net::Server* server = nullptr;  // under mutex; null when it is gone
  };

  base::Status open();
  base::Status open_access_log();
  base::Status open_audit_log();
  Exit start();
  void publish(std::shared_ptr<const bus::Catalog> catalog, std::function<void()> settled);
  std::shared_ptr<const bus::Catalog> catalog() const;
  Reloader::Steps reload_steps();
  void on_signal(int signal);
  bool wait_for_drain();
  void enter(Phase phase);
  base::Duration rest_of_drain(base::Duration most) const;
  void ping_watchdog();
  void write_families(std::string& out);

  const Config& config_;
  LiveSettings& live_;  // the reloader's
  const ServiceNotifier service_{std::getenv("NOTIFY_SOCKET")};
  ops::HostLoad host_load_;
  base::HostMemory host_memory_;  // outlives the models, whose Catalogs the state may hold
  ServerState state_;
  onnx::Runtime onnx_;
  forward::Runtime forward_;
  std::unique_ptr<ClusterNode> cluster_;  // or null
  std::vector<std::unique_ptr<net::Shard>> shards_;
  std::vector<std::unique_ptr<ShardServer>> shard_servers_;
  const std::shared_ptr<ModelDoor> model_door_ = std::make_shared<ModelDoor>(&state_.memory, config_.models.waits);
  mutable std::mutex mutex_;
  std::shared_ptr<const bus::Catalog> latest_;  // under mutex_
  models::Repository repository_;
  const std::shared_ptr<ServerRef> server_ref_ = std::make_shared<ServerRef>();
  std::optional<net::Server> server_;
  std::optional<Reloader> reloader_;
  std::optional<net::Signals> signals_;
  bool started_ = false;  // the shards run
  std::atomic<bool> device_lost_{false};
  MemoryWatch memory_watch_;
  base::Time drain_ends_{};  // written on the first shard, read when it has ended
  std::optional<WatchdogPing> watchdog_ping_;
  std::promise<bool> drained_;
};

Serving::Serving(const Config& config, LiveSettings& live)
    : config_(config),
      live_(live),
      state_(config),
      onnx_(onnx_options(config)),
      cluster_(ClusterNode::make(config, forward_.directory(), state_.memory, [this] { return catalog(); })),
      latest_(std::make_shared<const bus::Catalog>()),
      repository_(with_cluster(repository_options(config, state_.gpus.devices()), cluster_.get()),
                  engines(onnx_, forward_, state_.gpus.devices(), host_memory_, pinned_shards(config),
                          process_options(config), model_door_->world([this] { return catalog(); })),
                  state_.slabs,
                  [this](auto catalog, auto settled) { publish(std::move(catalog), std::move(settled)); }) {
  state_.repository = &repository_, model_door_->set(&repository_);
  state_.catalog = [this] { return catalog(); };
  state_.readiness_changed = [this] {
    for (auto& server : shard_servers_) server->readiness_changed();
  };
  state_.memory.on_step([this](base::Overload step) {  // on whichever thread has found it
    log_overload(state_.memory, step);
    state_.readiness_changed();
  });
  state_.metrics.collect([this](std::string& out) { write_families(out); });
  if (cluster_) cluster_->share(state_.jobs), state_.others = &cluster_->sessions();
  if (cluster_) state_.cluster = [this] { return cluster_->detail(); };
}

base::Status Serving::open_audit_log() {
  if (config_.audit_log == "off") return {};
  auto log = ops::AuditLog::open(config_.audit_log, state_.metrics);
  if (!log) return log.error();
  state_.audit_log = std::move(*log);
  state_.access.on_read([&audit = *state_.audit_log](const std::string& file, const base::Status& outcome) {
    audit.note(std::chrono::system_clock::now(), "keys were read", file, outcome);
  });
  return {};
}

base::Status Serving::open_access_log() {
  if (config_.access_log == "off") return {};
  auto log = ops::AccessLog::open(config_.access_log, state_.metrics);
  if (!log) return log.error();
  state_.access_log = std::move(*log);
  return {};
}

// Shards, their shard servers and the listeners, in that order.
base::Status Serving::open() {
  if (auto s = open_access_log(); !s.ok()) return s;
  if (auto s = open_audit_log(); !s.ok()) return s;
  if (auto s = state_.jobs.open(); !s.ok()) return s;
  auto tracing = Tracing::open(config_.tracing, state_.metrics);
  if (!tracing) return tracing.error();
  state_.tracing = std::move(*tracing);
  uint32_t count = shards_of(config_);
  net::Pin pin = pinned_shards(config_) > 0 ? net::Pin::kYes : net::Pin::kNo;
  auto post = [this](base::ShardId shard, std::function<void()> work) {
    shards_[size_t(shard)]->post(std::move(work));
  };
  if (auto s = open_dialects(state_, count, std::move(post)); !s.ok()) return s;
  std::vector<net::Shard*> shards;
  std::vector<wire::CodecEnv> envs;
  for (uint32_t i = 0; i < count; ++i) {
    shards.push_back(shards_.emplace_back(std::make_unique<net::Shard>(base::ShardId(i), pin)).get());
    shards.back()->spin(config_.spin);
    shards.back()->charge(state_.memory);
    shard_servers_.push_back(std::make_unique<ShardServer>(*shards.back(), state_, count));
    if (auto s = shard_servers_.back()->mount_dialects(); !s.ok()) return s;
    envs.push_back(shard_servers_.back()->codec_env());
  }
  server_.emplace(shards, envs, server_options(config_), state_.metrics);
  {
    std::lock_guard lock(server_ref_->mutex);
    server_ref_->server = &*server_;
  }
  state_.slabs.on_room([ref = server_ref_] {
    std::lock_guard lock(ref->mutex);
    if (ref->server) ref->server->resume_reading();
  });
  auto inherited = net::InheritedSockets::from_environment();
  if (!inherited) return inherited.error();
  server_->inherit(std::move(*inherited));
  auto bound = server_->bind();
  if (bound.ok() && service_.on()) service_.keep(server_->share_sockets());
  return bound;
}

// kOk: it serves.
Exit Serving::start() {
  if (auto s = open(); !s.ok()) {
    print_error("weir: " + s.text);
    bool settings = s.code == base::Code::kInvalidArgument || s.code == base::Code::kFailedPrecondition;
    return settings ? Exit::kUsage : Exit::kBind;  // certificates are settings, too
  }
  for (auto& shard : shards_) forward_.attach(*shard), shard->start();
  started_ = true;
  if (cluster_) cluster_->start(repository_, *server_);
  state_.access.start();
  state_.live->start();
  state_.jobs.start();
  reloader_.emplace(certificate_files(config_), reload_steps());
  signals_.emplace(*shards_[0], [this](int signal) { on_signal(signal); });
  if (ends_on_fault(config_.device.on_fault, service_))
    state_.gpus.devices().on_fault([this](const base::Status& why) {
      base::log::error("a GPU is lost: the server ends", {{"reason", why.text}, {"setting", "device.on_fault"}});
      device_lost_ = true;
      shards_[0]->post([this] { on_signal(SIGTERM); });
    });
  // Clients may wait at sockets that the service manager kept: they do so until there are models again.
  const bool takes_over = std::getenv("LISTEN_FDS") != nullptr;
  if (!takes_over) server_->start();
  service_.status("models are loading");
  ping_watchdog();
  if (auto s = repository_.start(); !s.ok()) {
    print_error("weir: " + s.text);
    return Exit::kModels;
  }
  if (takes_over) server_->start();
  enter(Phase::kServing);
  if (!keep_reserve()) throw std::bad_alloc();  // it would serve, and have no memory to end with
  greet(config_, *server_, *catalog(), state_.access);
  service_.ready(ready_models(*catalog()));
  shards_[0]->post([this] { memory_watch_.start(shards_[0]->env(), state_.slabs); });
  return Exit::kOk;
}

Exit Serving::run() {
  try {
    if (auto exit = start(); exit != Exit::kOk) return exit;
  } catch (const std::exception& e) {  // some threads run, others do not: there is no orderly end
    base::log::flush(kLastLines);
    print_error(shortage(e));
    std::_Exit(int(Exit::kFailed));
  }
  if (!wait_for_drain()) base::log::warning("requests were cut off at the end of shutdown.drain_timeout");
  return device_lost_ ? Exit::kDevice : Exit::kOk;
}

// True: nothing was cut off. The drain keeps its own time; where it cannot (for want of memory, its timers among it),
// the process ends here.
bool Serving::wait_for_drain() {
  auto drained = drained_.get_future();
  std::optional<std::chrono::steady_clock::time_point> end;
  while (drained.wait_for(kDrainWatch) != std::future_status::ready) {
    const auto now = std::chrono::steady_clock::now();
    if (state_.phase.load() != Phase::kDraining) continue;
    if (!end) end = now + config_.drain_delay + config_.drain_timeout + kLastCalls;
    if (now < *end) continue;
    print_error("weir: the drain did not end in its time: ended without it");
    std::_Exit(int(Exit::kFailed));
  }
  return drained.get();
}

// Draining is for good.
void Serving::enter(Phase phase) {
  auto now = state_.phase.load();
  while (now < phase && !state_.phase.compare_exchange_weak(now, phase)) continue;
  for (auto& server : shard_servers_) server->phase_changed();
  if (cluster_ && phase == Phase::kServing) cluster_->serve(*catalog());
  if (cluster_ && phase == Phase::kDraining) cluster_->cluster().drain();
}

void Serving::publish(std::shared_ptr<const bus::Catalog> catalog, std::function<void()> settled) {
  {
    std::lock_guard lock(mutex_);
    latest_ = catalog;
  }
  if (state_.phase.load() == Phase::kServing) {
    service_.status(ready_models(*catalog));
    if (cluster_) cluster_->serve(*catalog);
  }
  if (shard_servers_.empty()) return settled();
  auto left = std::make_shared<std::atomic<size_t>>(shard_servers_.size());
  for (auto& server : shard_servers_)
    server->publish(catalog, [left, settled] {
      if (left->fetch_sub(1) == 1) settled();
    });
}

std::shared_ptr<const bus::Catalog> Serving::catalog() const {
  std::lock_guard lock(mutex_);
  return latest_;
}

void Serving::write_families(std::string& out) {
  auto now = catalog();
  out += "# HELP weir_ready 1 while requests are welcome, as /readyz says.\n# TYPE weir_ready gauge\nweir_ready ";
  out += why_not_ready(state_, *now).empty() ? "1\n" : "0\n";
  ops::append_models(out, *now);
  ops::append_tokens(out, *now);
  const auto& compat = config_.metrics_compat;
  auto also = [&](const char* names) { return std::find(compat.begin(), compat.end(), names) != compat.end(); };
  if (also("triton")) ops::append_triton(out, *now, config_.metrics_quantiles), host_load_.append_triton(out);
  if (also("vllm")) ops::append_vllm(out, *now);
  if (also("llamacpp")) ops::append_llama_cpp(out, *now);
  ops::append_process(out, kVersion);
  append_slabs(out, state_.slabs, state_.memory);
  append_memory(out, state_.memory);
  if (cluster_) cluster_->cluster().write_families(out);
  model_door_->write_metrics(out);
  state_.gpus.write_families(out, state_.slabs, also("triton") ? Gpus::Names::kTritonsToo : Gpus::Names::kOurs);
}

Reloader::Steps Serving::reload_steps() {
  Reloader::Steps steps;
  steps.settings = [this] { return live_.reload(); };
  steps.certificates = [this] {
    const auto others = cluster_ ? cluster_->reload_tls() : base::Status();
    const auto own = server_->reload_tls();
    if (own.ok() || others.ok()) return own.ok() ? others : own;
    return base::failure(own.code, own.text + "; " + others.text);
  };
  if (state_.access.reads_files()) steps.keys = [this] { return state_.access.reload(); };
  steps.models = [this](std::function<void()> done) { repository_.rescan(std::move(done)); };
  return steps;
}

// On the first shard.
void Serving::on_signal(int signal) {
  if (signal == SIGHUP) {
    service_.reloading();
    reloader_->reload([this] { service_.ready(ready_models(*catalog())); });
  } else if (signal == SIGUSR1) {
    if (state_.access_log) state_.access_log->reopen();
    if (state_.audit_log) state_.audit_log->reopen();
    for (auto* dialect : config_.served()) dialect->reopen_files();
  } else {
    if (state_.phase.load() == Phase::kDraining) std::_Exit(128 + signal);  // it was on its way already
    net::end_at_next_signal();
    bool loading = state_.phase.load() == Phase::kLoading;
    base::log::info("shutting down", {{"signal", signal == SIGINT ? "SIGINT" : "SIGTERM"}});
    service_.stopping("waiting for open requests");
    enter(Phase::kDraining);
    drain_ends_ = std::chrono::steady_clock::now() + config_.drain_delay + config_.drain_timeout;
    server_->drain([this, loading](bool clean) {
      if (loading) std::_Exit(int(Exit::kOk));  // the main thread is busy with a model that nobody will call
      drained_.set_value(clean);
    });
  }
}

// The rest of the drain's time for work that ends last: `most` of it, and a second in any case.
base::Duration Serving::rest_of_drain(base::Duration most) const {
  return std::clamp<base::Duration>(drain_ends_ - std::chrono::steady_clock::now(), kLeastRest,
                                    std::max<base::Duration>(most, kLeastRest));
}

void Serving::ping_watchdog() {
  const auto period = watchdog_period(std::getenv("WATCHDOG_USEC"), std::getenv("WATCHDOG_PID"));
  if (!service_.on() || period <= base::Duration(0)) return;
  std::vector<WatchdogPing::Post> posts;
  for (auto& shard : shards_)
    posts.push_back([to = shard.get()](std::function<void()> work) { to->post(std::move(work)); });
  watchdog_ping_.emplace(shards_[0]->env(), std::move(posts), period, [this] { service_.alive(); });
  shards_[0]->post([this] { watchdog_ping_->start(); });
}

// Nothing new comes in, then the last Calls come back, then everything may go.
Serving::~Serving() {
  net::end_at_next_signal();
  if (reloader_) reloader_->stop();
  if (started_) end_jobs(shard_servers_);
  if (cluster_) cluster_->stop();
  model_door_->set(nullptr), end_loads(repository_, rest_of_drain(kLastLoad));
  if (state_.live) state_.live->stop();
  {
    std::lock_guard lock(server_ref_->mutex);
    server_ref_->server = nullptr;
  }
  server_.reset();
  if (started_) finish_calls(shard_servers_);
  for (auto& shard : shards_) shard->stop();
  for (auto& shard : shards_) shard->join();
  state_.jobs.stop(rest_of_drain(jobs::Store::kLastWork));
  forward_.close();
  if (state_.tracing) state_.tracing->stop(kLastSpans);
  signals_.reset();
  shard_servers_.clear();
  shards_.clear();
}

}  // namespace

Exit serve(const Config& config, LiveSettings& live) {
  if (auto s = check_roots(config); !s.ok()) {
    print_error("weir: " + s.text);
    return Exit::kUsage;
  }
  std::optional<Serving> serving;
  try {
    serving.emplace(config, live);
  } catch (const std::system_error& e) {
    print_error(shortage(e));
    return Exit::kFailed;
  } catch (const std::runtime_error& e) {
    print_error(std::string("weir: ") + e.what());
    return Exit::kUsage;
  }
  return serving->run();
}

}  // namespace weir::app
