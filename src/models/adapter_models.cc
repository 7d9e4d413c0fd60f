#include "models/adapter_models.h"

#include <utility>

#include "bus/counted_stats.h"

namespace weir::models {
namespace {

class AdapterInbox final : public msg::Inbox, public bus::CountsElsewhere {
 public:
  AdapterInbox(std::shared_ptr<bus::Served> model, uint32_t adapter, std::shared_ptr<const void> keep)
      : model_(std::move(model)), adapter_(adapter), keep_(std::move(keep)) {}

  void put(msg::Call* call) override {
    call->adapter = adapter_;
    model_->inbox->put(call);
  }
  void poke() override { model_->inbox->poke(); }
  bus::ModelStats& counted_stats() override { return model_->stats; }
  void keep(const LoadedAdapter& adapter) {
    if (!keep_ && adapter.source.number == adapter_) keep_ = adapter.keep;
  }

 private:
  const std::shared_ptr<bus::Served> model_;
  const uint32_t adapter_;
  std::shared_ptr<const void> keep_;  // ends before the model; null: it is in memory as long as the model is, or waits
};

std::shared_ptr<bus::Served> make_adapter(const std::shared_ptr<bus::Served>& model, const std::string& name,
                                          const std::string& root, uint32_t number, std::shared_ptr<const void> keep) {
  auto served = std::make_shared<bus::Served>();
  served->spec = model->spec;
  served->spec.name = name, served->spec.parent = model->spec.name, served->spec.root = root;
  served->stats.places = model->stats.places;
  served->inbox = std::make_unique<AdapterInbox>(model, number, std::move(keep));
  return served;
}

}  // namespace

std::shared_ptr<bus::Served> adapter_model(const std::shared_ptr<bus::Served>& model, const LoadedAdapter& adapter) {
  return make_adapter(model, adapter.source.name, adapter.root, adapter.source.number, adapter.keep);
}

std::vector<std::shared_ptr<bus::Served>> adapter_models(const std::shared_ptr<bus::Served>& model,
                                                         const LoadedAdapters& loaded) {
  std::vector<std::shared_ptr<bus::Served>> out;
  for (const auto& [name, path] : model->spec.adapters)
    out.push_back(make_adapter(model, name, path, uint32_t(out.size() + 1), nullptr));
  for (const auto& [name, adapter] : loaded.all)
    if (adapter.reason.empty()) out.push_back(adapter_model(model, adapter));
  return out;
}

void keep_adapters(const std::vector<std::shared_ptr<bus::Served>>& waiting, const LoadedAdapters& loaded) {
  for (const auto& served : waiting)
    if (const auto at = loaded.all.find(served->spec.name); at != loaded.all.end())
      static_cast<AdapterInbox&>(*served->inbox).keep(at->second);
}

}  // namespace weir::models
