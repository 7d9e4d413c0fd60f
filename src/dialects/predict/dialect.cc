#include "dialects/dialect.h"

#include "dialects/predict/predict.h"
#include "predict_openapi.h"

namespace weir::predict {
namespace {

struct MountedPredict final : dialects::Mounted {
  MountedPredict(const dialects::ShardServices& shard, PredictOptions options)
      : predict(shard.bus, shard.router, shard.slabs, std::move(options)) {}

  Predict predict;
};

class PredictDialect final : public dialects::Dialect {
 public:
  std::string_view name() const override { return "predict"; }
  std::string_view title() const override { return "KServe V1"; }
  std::string openapi() const override { return std::string(kOpenApi); }

  base::Status open(const dialects::ServerServices& services) override {
    options_.max_body = services.limits.body;
    return {};
  }
  base::Result<std::unique_ptr<dialects::Mounted>> mount(const dialects::ShardServices& shard) override {
    PredictOptions options = options_;
    options.accepting = [&control = shard.control] { return control.accepting(); };
    options.offload = &shard.offload;
    return std::make_unique<MountedPredict>(shard, std::move(options));
  }

 private:
  PredictOptions options_;
};

}  // namespace

std::unique_ptr<dialects::Dialect> make_dialect() { return std::make_unique<PredictDialect>(); }

}  // namespace weir::predict
