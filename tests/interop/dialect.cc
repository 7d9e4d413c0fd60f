#include "dialects/dialect.h"

#include "interop/interop.h"
#include "interop/test_service.h"

namespace weir::interop {
namespace {

struct MountedTestService final : dialects::Mounted {
  explicit MountedTestService(const dialects::ShardServices& shard) : service(shard.rpcs, shard.env) {}

  TestService service;
};

class InteropDialect final : public dialects::Dialect {
 public:
  std::string_view name() const override { return "interop"; }
  std::string_view title() const override { return "gRPC's test service"; }
  std::vector<std::string_view> services() const override { return {TestService::kService}; }
  base::Status open(const dialects::ServerServices&) override { return {}; }
  base::Result<std::unique_ptr<dialects::Mounted>> mount(const dialects::ShardServices& shard) override {
    return std::make_unique<MountedTestService>(shard);
  }
};

}  // namespace

std::unique_ptr<dialects::Dialect> make_dialect() { return std::make_unique<InteropDialect>(); }

}  // namespace weir::interop
