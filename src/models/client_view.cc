#include "models/client_view.h"

#include <utility>
#include <vector>

#include "sched/preprocessed_engine.h"
#include "sched/reshaped_engine.h"

namespace weir::models {
namespace {

std::vector<sched::Reshape> reshapes(const std::vector<TensorConfig>& tensors) {
  std::vector<sched::Reshape> out;
  for (const auto& t : tensors)
    if (t.reshape) out.push_back({t.spec.name, t.spec.shape, *t.reshape});
  return out;
}

}  // namespace

base::Result<std::unique_ptr<sched::Engine>> as_clients_see_it(std::unique_ptr<sched::Engine> engine,
                                                               const ModelConfig& config, base::SlabSource& slabs) {
  if (config.preprocess) {
    auto made = sched::make_preprocessed(std::move(engine), config.preprocess->input, config.preprocess->how, slabs);
    if (!made) return made.error();
    engine = std::move(*made);
  }
  auto inputs = reshapes(config.inputs), outputs = reshapes(config.outputs);
  if (inputs.empty() && outputs.empty()) return engine;
  return sched::make_reshaped(std::move(engine), inputs, outputs);
}

base::Status remote_fits(const ModelConfig& config) {
  const char* what = !config.warm_up.empty()                                                 ? "warm_up"
                     : !reshapes(config.inputs).empty() || !reshapes(config.outputs).empty() ? "reshape"
                                                                                             : nullptr;
  if (!what) return {};
  return base::failure(base::Code::kUnimplemented,
                       std::string(what) + " is for models that run here, not for those that are forwarded");
}

}  // namespace weir::models
