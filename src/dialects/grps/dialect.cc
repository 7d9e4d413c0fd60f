#include "dialects/dialect.h"

#include <optional>

#include "dialects/grps/grps.h"
#include "dialects/grps/monitor.h"
#include "dialects/grps/routes.h"
#include "grps_openapi.h"

namespace weir::grps {
namespace {

namespace setting = base::setting;

struct MountedGrps final : dialects::Mounted {
  MountedGrps(const dialects::ShardServices& shard, Presence& presence, Monitor& monitor, Options options)
      : grps(
            shard.bus, shard.router, shard.rpcs, shard.slabs, presence, monitor,
            [&control = shard.control] { return control.ready(); }, std::move(options)) {}

  Grps grps;
};

class GrpsDialect final : public dialects::Dialect {
 public:
  std::string_view name() const override { return "grps"; }
  std::string_view title() const override { return "GRPS"; }
  std::string openapi() const override { return std::string(kOpenApi); }
  void add_settings(std::vector<base::Setting>& rows) override;
  std::vector<std::string_view> services() const override { return {Grps::kService, Grps::kBrpcService}; }
  std::vector<dialects::FrontPageLink> links() const override {
    return {{"monitor", "/grps/v1/monitor/metrics", "GRPS' metrics: requests, latency, memory, batches"}};
  }

  base::Status open(const dialects::ServerServices& services) override {
    options_.server_version = services.version;
    options_.max_body = services.limits.body;
    monitor_.emplace(services.metrics, [gpus = services.gpus] {
      auto usage = Monitor::own_usage();
      usage.gpus = gpus();
      return usage;
    });
    return {};
  }
  base::Result<std::unique_ptr<dialects::Mounted>> mount(const dialects::ShardServices& shard) override {
    Options options = options_;
    options.offload = &shard.offload;
    if (auto taken = check_free(options.routes, shard.router); !taken.ok()) return taken;
    return std::make_unique<MountedGrps>(shard, presence_, *monitor_, std::move(options));
  }
  std::vector<std::string> missing(const bus::Catalog& catalog) const override {
    return missing_from_catalog(options_, catalog);
  }

 private:
  Options options_;
  Presence presence_;  // of all shards, as the monitor
  std::optional<Monitor> monitor_;
};

void GrpsDialect::add_settings(std::vector<base::Setting>& rows) {
  auto check = [](const setting::Values& values) -> base::Status {
    for (const auto& v : values)
      if (std::string wrong = check_streaming(v); !wrong.empty()) return base::invalid(wrong + ", got '" + v + "'");
    return {};
  };
  rows.push_back(setting::checked(setting::text("grps.streaming", "query_param:KEY, header_param:KEY, body_param:KEY",
                                                "what switches streaming on in infer/predict", options_.streaming),
                                  check));
  base::Setting routes;
  routes.key = "grps.routes", routes.help = "HTTP routes of the user's own";
  routes.form = base::Setting::ValueKind::kTree;
  routes.read = [this](const base::Yaml& node, base::Complaints& complaints) {
    read_routes(node, complaints, options_.routes);
  };
  routes.show = [this] { return show_routes(options_.routes); };
  rows.push_back(std::move(routes));
  rows.push_back(setting::replaced("grps.default_model", "models.default"));
}

}  // namespace

std::unique_ptr<dialects::Dialect> make_dialect() { return std::make_unique<GrpsDialect>(); }

}  // namespace weir::grps
