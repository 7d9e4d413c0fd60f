#include "dialects/dialect.h"

#include "dialects/oip/oip.h"
#include "dialects/oip/trace.h"
#include "oip_openapi.h"

namespace weir::oip {
namespace {

struct MountedOip final : dialects::Mounted {
  MountedOip(const dialects::ShardServices& shard, Traces& traces, OipOptions options)
      : oip(shard.bus, shard.router, shard.rpcs, shard.slabs, shard.control, traces, std::move(options)) {}

  Oip oip;
};

class OipDialect final : public dialects::Dialect {
 public:
  std::string_view name() const override { return "oip"; }
  std::string_view title() const override { return "the Open Inference Protocol"; }
  std::string openapi() const override { return std::string(kOpenApi); }
  Switch switched() const override { return Switch::kAlwaysOn; }
  std::vector<std::string_view> services() const override { return {Oip::kService}; }
  std::vector<dialects::FrontPageLink> links() const override {
    return {{"models", "/v2/models", "The models that are served"},
            {"server", "/v2", "The server's name, version and extensions"}};
  }

  base::Status open(const dialects::ServerServices& services) override {
    options_.server_version = services.version;
    options_.max_body = services.limits.body;
    options_.conn_calls = services.conn_calls;
    return {};
  }
  base::Result<std::unique_ptr<dialects::Mounted>> mount(const dialects::ShardServices& shard) override {
    return std::make_unique<MountedOip>(shard, traces_, options_);
  }

 private:
  OipOptions options_;
  Traces traces_;  // of all shards
};

}  // namespace

std::unique_ptr<dialects::Dialect> make_dialect() { return std::make_unique<OipDialect>(); }

}  // namespace weir::oip
