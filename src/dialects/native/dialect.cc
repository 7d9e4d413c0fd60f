#include "dialects/dialect.h"

#include "dialects/native/native.h"

namespace weir::native {
namespace {

struct MountedNative final : dialects::Mounted {
  explicit MountedNative(const dialects::ShardServices& shard)
      : native(shard.bus, shard.rpcs, [&control = shard.control] { return control.accepting(); }) {}

  Native native;
};

class NativeDialect final : public dialects::Dialect {
 public:
  std::string_view name() const override { return "native"; }
  std::string_view title() const override { return "weir's own protocol"; }
  std::vector<std::string_view> services() const override { return {Native::kService}; }
  base::Status open(const dialects::ServerServices&) override { return {}; }
  base::Result<std::unique_ptr<dialects::Mounted>> mount(const dialects::ShardServices& shard) override {
    return std::make_unique<MountedNative>(shard);
  }
};

}  // namespace

std::unique_ptr<dialects::Dialect> make_dialect() { return std::make_unique<NativeDialect>(); }

}  // namespace weir::native
