// ShardServer: everything that answers requests on one shard: its bus, router, rpc server and the dialects of the
// configuration (app/dialects.cc).
//
// Made before its shard starts; from then on used on the shard's thread, but for what says otherwise. Destroyed after
// the shard has been joined.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "app/access_control.h"
#include "app/background_callers.h"
#include "app/cluster_sessions.h"
#include "app/config.h"
#include "app/gpus.h"
#include "app/node_callers.h"
#include "app/readiness_watch.h"
#include "app/shard_access.h"
#include "app/shard_offload.h"
#include "app/tracing.h"
#include "base/clients.h"
#include "base/memory_ledger.h"
#include "bus/bus.h"
#include "device/pool.h"
#include "dialects/dialect.h"
#include "dialects/ops/access_log.h"
#include "dialects/ops/api_docs.h"
#include "dialects/ops/audit_log.h"
#include "dialects/ops/console/console.h"
#include "dialects/ops/console/live_feed.h"
#include "dialects/ops/front_page.h"
#include "dialects/ops/health.h"
#include "dialects/ops/metrics.h"
#include "dialects/ops/pages.h"
#include "dialects/ops/recent_requests.h"
#include "dialects/ops/reflection.h"
#include "dialects/ops/request_feed.h"
#include "dialects/ops/request_spans.h"
#include "jobs/shard_jobs.h"
#include "jobs/store.h"
#include "marshal/proto_json.h"
#include "models/repository.h"
#include "net/shard.h"
#include "sched/turn_wakes.h"
#include "sched/worker_pool.h"
#include "wire/body_memory.h"
#include "wire/body_starts.h"
#include "wire/codec.h"
#include "wire/date.h"
#include "wire/forwarded.h"
#include "wire/router.h"
#include "wire/rpc.h"
#include "wire/tracer.h"

namespace weir::app {

// The gRPC services of the dialects that are on, and of health, but not reflection's.
std::vector<std::string> services(const Config& config);

// The state that all ShardServers of a server share. Any thread.
struct ServerState {
  explicit ServerState(const Config& c)
      : config(c),
        gpus(c),
        memory(gpus.budget(), gpus.budget() / kKeptForAnswers, c.overload),
        pool(gpus.make_pool(memory)),
        slabs(*pool),
        jobs(jobs_folder(c.jobs, [](const char* name) -> const char* { return std::getenv(name); }), c.jobs.limits,
             "files, batches and asynchronous jobs are not kept here: set jobs.path to a folder"),
        json(size_t(c.limits.message)) {}

  static constexpr uint64_t kKeptForAnswers = 16;  // the part of the memory that slabs do not get is one in so many

  const Config& config;
  AccessControl access{config};
  base::Metrics metrics;
  base::Clients clients;  // outlives the slabs that are charged to them
  const wire::TrustedProxies proxies{base::NetworkList::parse(config.trusted_proxies).value(), config.client_field,
                                     clients};
  wire::BodyMemory::Need body_need;
  Gpus gpus;
  base::MemoryLedger memory;  // all that peers cause
  const std::unique_ptr<device::SlabPool> pool;
  device::SlabPool& slabs;  // of the pool
  jobs::Store jobs;
  marshal::ProtoJson json;
  ops::Reflection reflection{services(config)};
  std::unique_ptr<ops::AccessLog> access_log;  // or null
  std::unique_ptr<ops::AuditLog> audit_log;    // or null
  std::unique_ptr<Tracing> tracing;            // or null
  std::unique_ptr<ops::RequestFeed> feed;      // all three from open_dialects() on
  std::unique_ptr<ops::LiveFeed> live;
  std::unique_ptr<ops::RecentRequests> recent;
  models::Repository* repository = nullptr;                      // set before any shard starts
  std::function<std::shared_ptr<const bus::Catalog>()> catalog;  // the latest; set before any shard starts
  std::function<void()> readiness_changed;                       // the same; null: there is nobody to tell
  std::function<std::string()> cluster;                          // null: there is none; set before any shard starts
  ClusterSessions* others = nullptr;                             // the same
  const std::unique_ptr<msg::Inbox> offload =                    // of all shards
      sched::make_worker_pool({std::clamp(std::thread::hardware_concurrency() / 4, 1u, 4u)});
  enum class Phase : uint8_t { kLoading, kServing, kDraining };
  std::atomic<Phase> phase{Phase::kLoading};

  // Models say it of themselves: app/readiness_watch.h.
  std::shared_ptr<const bus::SaidReadiness> said() const {
    std::lock_guard lock(said_mutex_);
    return said_;
  }
  void set_said(std::shared_ptr<const bus::SaidReadiness> said) {
    std::lock_guard lock(said_mutex_);
    said_ = std::move(said);
  }

 private:
  mutable std::mutex said_mutex_;
  std::shared_ptr<const bus::SaidReadiness> said_ = std::make_shared<const bus::SaidReadiness>();
};

// Says why requests are not welcome, as /readyz does; empty: they are. Any thread.
std::string why_not_ready(ServerState& state, const bus::Catalog& catalog);

// Opens the dialects that are on, for `shards` shards, and reads the keys; `post` runs work on one of them. Once,
// before any ShardServer is made. Errors: INVALID_ARGUMENT names the setting.
base::Status open_dialects(ServerState& state, uint32_t shards,
                           std::function<void(base::ShardId, std::function<void()>)> post);

class ShardServer final : public dialects::ServerControl, public ops::HealthSource {
 public:
  // One of `shards`.
  ShardServer(net::Shard& shard, ServerState& state, uint32_t shards);
  // Adds the dialects that are on. Once, after open_dialects(). Errors: INVALID_ARGUMENT, FAILED_PRECONDITION: they
  // name the setting.
  base::Status mount_dialects();

  net::Shard& shard() { return shard_; }
  bus::Bus& bus() { return bus_; }
  std::vector<const wire::Route*> routes() const { return router_.routes(); }
  wire::CodecEnv codec_env() {
    return {router_,  state_.slabs,    state_.config.limits,         &date_,
            &bodies_, &state_.proxies, starts_ ? &*starts_ : nullptr};
  }

  // Any thread; `done` is called on the shard's.
  void publish(std::shared_ptr<const bus::Catalog> catalog, std::function<void()> done);
  // Any thread: the server state's phase has moved.
  void phase_changed();
  // Any thread: whether requests are welcome may have changed otherwise.
  void readiness_changed();

  // Any thread: no job begins on this shard any more, and those that run go back to the journal. What is made in the
  // background, and was not put into the journal when the drain began, has failed.
  void end_jobs();

  // dialects::ServerControl
  bool accepting() const override;
  std::string why_not_ready() const override;
  void load(const std::string& model, LoadParameters parameters, Done done) override;
  void unload(const std::string& model, Dependents dependents, Done done) override;
  void settings_changed(const wire::Exchange& exchange, std::string change) override {
    if (shard_audit_) shard_audit_->changed(exchange, std::move(change));
  }
  // ops::HealthSource
  ops::Serving serving(std::string_view name) const override;
  std::string own_name(std::string_view name) const override;
  std::vector<std::string> names() const override;

 private:
  void drain();
  void watch_readiness();

  net::Shard& shard_;
  ServerState& state_;
  bus::Bus bus_;
  sched::TurnWakes wakes_;
  ShardOffload offload_{bus_};
  wire::BodyMemory bodies_;
  std::optional<wire::BodyStarts> starts_;  // where console.bodies asks for it
  wire::HttpDate date_{shard_.env()};
  wire::Router router_;
  ShardAccess access_;
  std::optional<BackgroundCallers> callers_;  // where there are any
  std::optional<NodeCallers> node_callers_;   // the next three in a cluster
  std::optional<forward::NodeRelay> relay_;
  std::optional<PeerMethod> peer_method_;
  jobs::ShardJobs jobs_;
  wire::RpcServer rpcs_;
  std::vector<std::unique_ptr<dialects::Mounted>> dialects_;
  const std::vector<std::string>& services_;  // with reflection
  ops::Health health_;
  ops::Pages pages_;
  ops::Console console_;
  ops::FrontPage front_page_;
  ops::ApiDocs api_docs_;
  ops::RequestMetrics request_metrics_;
  std::optional<ops::AccessLog::ShardLog> shard_log_;
  std::optional<ops::AuditLog::ShardLog> shard_audit_;
  std::unique_ptr<ops::RequestFeed::ShardFeed> feed_;
  std::unique_ptr<ops::RecentRequests::ShardRequests> recent_;
  std::unique_ptr<ops::LiveFeed::ShardLive> live_;
  std::optional<ops::RequestSpans> spans_;
  std::optional<wire::Tracer> tracer_;
  std::optional<ReadinessWatch> readiness_watch_;  // on the first shard, unless no model's readiness counts
};

}  // namespace weir::app
