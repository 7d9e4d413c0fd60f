#include "models/adapter_models.h"

#include <utility>

#include "bus/counted_stats.h"

namespace weir::models {
namespace {

class AdapterInbox final : public msg::Inbox, public bus::CountsElsewhere {
 public:
  AdapterInbox(std::shared_ptr<bus::Served> model, uint32_t adapter) : model_(std::move(model)), adapter_(adapter) {}

  void put(msg::Call* call) override {
    call->adapter = adapter_;
    model_->inbox->put(call);
  }
  void poke() override { model_->inbox->poke(); }
  bus::ModelStats& counted_stats() override { return model_->stats; }

 private:
  const std::shared_ptr<bus::Served> model_;
  const uint32_t adapter_;
};

}  // namespace

std::vector<std::shared_ptr<bus::Served>> adapter_models(const std::shared_ptr<bus::Served>& model) {
  std::vector<std::shared_ptr<bus::Served>> out;
  for (const auto& [name, path] : model->spec.adapters) {
    auto& served = out.emplace_back(std::make_shared<bus::Served>());
    served->spec = model->spec;
    served->spec.name = name, served->spec.parent = model->spec.name;
    served->stats.places = model->stats.places;
    served->inbox = std::make_unique<AdapterInbox>(model, uint32_t(out.size()));
  }
  return out;
}

}  // namespace weir::models
