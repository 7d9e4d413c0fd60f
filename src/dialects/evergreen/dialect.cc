#include "dialects/dialect.h"

#include <algorithm>
#include <optional>

#include "dialects/evergreen/evergreen.h"
#include "evergreen_openapi.h"
#include "marshal/proto_json.h"
#include "session/handover.h"

namespace weir::evergreen {
namespace {

namespace setting = base::setting;

struct MountedEvergreen final : dialects::Mounted {
  MountedEvergreen(const dialects::ShardServices& shard, marshal::ProtoJson& json, Options options,
                   std::unique_ptr<wire::Fetcher> its_fetcher, session::ByteQuota& byte_quota)
      : fetcher(std::move(its_fetcher)),
        evergreen(shard.bus, shard.router, shard.rpcs, shard.slabs, json, std::move(options), fetcher.get(),
                  &byte_quota) {}
  void drain(base::Duration grace) override { evergreen.drain(grace); }

  std::unique_ptr<wire::Fetcher> fetcher;  // or null
  Evergreen evergreen;
};

class EvergreenDialect final : public dialects::Dialect {
 public:
  std::string_view name() const override { return "evergreen"; }
  std::string_view title() const override { return "Evergreen"; }
  std::string openapi() const override { return std::string(kOpenApi); }
  void add_settings(std::vector<base::Setting>& rows) override;
  std::vector<std::string_view> services() const override { return {Evergreen::kService}; }
  const wire::FetchRules* fetch_rules() const override { return &fetch_; }
  base::Status open(const dialects::ServerServices& services) override;
  base::Result<std::unique_ptr<dialects::Mounted>> mount(const dialects::ShardServices& shard) override;

 private:
  void add_reference_settings(std::vector<base::Setting>& rows);
  void add_session_settings(std::vector<base::Setting>& rows);

  Options options_;
  wire::FetchRules fetch_;  // of references
  std::optional<marshal::ProtoJson> json_;
  std::optional<session::ByteQuota> byte_quota_;  // of all shards
};

void EvergreenDialect::add_settings(std::vector<base::Setting>& rows) {
  rows.push_back(setting::flag("evergreen.websocket", "sessions over WebSocket, too", options_.websocket));
  add_reference_settings(rows);
  add_session_settings(rows);
  rows.push_back(setting::replaced("evergreen.default_model", "models.default"));
}

void EvergreenDialect::add_reference_settings(std::vector<base::Setting>& rows) {
  base::Setting roots =
      setting::list("evergreen.references.file_roots", "DIR", "file: references name files below these folders",
                    options_.references.file_roots);
  roots.path = true;
  rows.push_back(std::move(roots));
  rows.push_back(setting::list("evergreen.references.schemes", "SCHEME",
                               "http, https: references that are fetched; repeatable", fetch_.schemes));
  rows.push_back(setting::list("evergreen.references.hosts", "HOST",
                               "that they may name: a.example, *.b.example:8443, *; repeatable", fetch_.hosts));
  rows.push_back(setting::list("evergreen.references.networks", "CIDR",
                               "that they may reach although not public; repeatable", fetch_.networks));
  rows.push_back(setting::path("evergreen.references.ca_file",
                               "authorities to believe about https; empty = the system's", fetch_.ca_file));
  rows.push_back(
      setting::duration("evergreen.references.timeout", "of one fetch", fetch_.timeout, std::chrono::milliseconds(10)));
  rows.push_back(setting::size("evergreen.references.max_bytes", "of what one reference names",
                               options_.references.max_bytes, 1 << 10, 1 << 30));
}

void EvergreenDialect::add_session_settings(std::vector<base::Setting>& rows) {
  constexpr uint64_t kK = 1 << 10, kG = 1 << 30;
  auto& graph = options_.graph;
  rows.push_back(
      setting::size("evergreen.max_message", "one WebSocket message, one line", options_.max_message, kK, kG));
  rows.push_back(setting::size("evergreen.session_bytes", "content of one session", graph.bytes, 64 * kK, 64 * kG));
  rows.push_back(setting::size("evergreen.tenant_bytes", "and of all sessions of clients of one host",
                               options_.tenant_bytes, 64 * kK, uint64_t(1) << 44));
  rows.push_back(
      setting::size("evergreen.total_bytes", "and of all sessions", options_.total_bytes, 1 << 20, uint64_t(1) << 44));
  rows.push_back(setting::count("evergreen.max_nodes", "of one session", graph.nodes, 16, 10'000'000));
  rows.push_back(setting::count("evergreen.max_depth", "nodes inside each other", graph.depth, 2, 100'000));
  rows.push_back(setting::count("evergreen.max_ahead", "fragments of a node that wait for an earlier one", graph.ahead,
                                1, 1'000'000));
  rows.push_back(setting::count("evergreen.max_actions", "of one session that models work on at once",
                                options_.max_actions, 1, 10'000));
  rows.push_back(setting::duration("evergreen.idle",
                                   "how long a session lives without a message; at most 9/10 of stream_idle_timeout",
                                   options_.idle, std::chrono::milliseconds(100)));
  rows.push_back(setting::duration("evergreen.kept",
                                   "how long a session that is kept can be resumed when its client has gone, at least",
                                   options_.kept, std::chrono::seconds(1)));
  rows.push_back(setting::duration("evergreen.max_age", "of a session", options_.max_age, std::chrono::seconds(1)));
}

base::Status EvergreenDialect::open(const dialects::ServerServices& services) {
  json_.emplace(size_t(services.limits.message), marshal::ProtoJson::Names::kCamel);
  byte_quota_.emplace(options_.tenant_bytes, options_.total_bytes, &services.memory);
  byte_quota_->set_share({services.limits.client_share, 0});
  // A session that ends by itself can say so; one that the wire ends cannot.
  options_.idle = std::min(options_.idle, services.limits.stream_idle / 10 * 9);
  if (auto* nodes = dynamic_cast<session::HandsOver*>(services.others)) {
    options_.handover = &nodes->handover();
    options_.handover->keep_for(options_.kept);
  }
  // An eighth of what nodes look for at once is for one client, however many shards it comes to.
  options_.most_searches = std::max<size_t>(options_.most_searches / services.shards, 1);
  return {};
}

base::Result<std::unique_ptr<dialects::Mounted>> EvergreenDialect::mount(const dialects::ShardServices& shard) {
  auto fetcher = shard.make_fetcher(fetch_, options_.references.max_bytes);
  if (!fetcher) return base::failure(fetcher.error().code, "evergreen.references: " + fetcher.error().text);
  Options options = options_;
  options.bodies = &shard.bodies;
  options.offload = &shard.offload;
  options.shard = shard.id;
  return std::make_unique<MountedEvergreen>(shard, *json_, std::move(options), std::move(*fetcher), *byte_quota_);
}

}  // namespace

std::unique_ptr<dialects::Dialect> make_dialect() { return std::make_unique<EvergreenDialect>(); }

}  // namespace weir::evergreen
