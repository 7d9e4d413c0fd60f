#include "models/memory_use.h"

#include <algorithm>
#include <string>

#include "generation/kv_budget.h"

namespace weir::models {
namespace {

using Uses = std::vector<bus::MemoryUse>;

void add(Uses& to, std::string_view what, std::string_view place, uint64_t bytes) {
  if (bytes > 0) to.push_back({what, std::string(place), bytes});
}

std::vector<std::string> places_of(const generation::TokenModel& model) {
  std::vector<std::string> places{model.place};
  places.insert(places.end(), model.other_places.begin(), model.other_places.end());
  return places;
}

}  // namespace

Uses memory_of(const std::vector<std::unique_ptr<sched::Engine>>& engines,
               const std::vector<generation::TokenModel>& token_models, const msg::ModelSpec& spec,
               uint64_t version_bytes) {
  Uses out;
  for (const auto& engine : engines) {
    const bool there =
        std::any_of(out.begin(), out.end(), [&](const auto& use) { return use.place == engine->place(); });
    if (!there) add(out, "weights", engine->place(), version_bytes);
  }
  for (const auto& model : token_models)
    for (const auto& place : places_of(model))
      add(out, "weights", place, version_bytes / token_models.size() / places_of(model).size());
  for (const auto& model : token_models) add(out, "adapters", model.place, model.adapter_bytes);
  for (const auto& model : token_models) {
    const auto policy = model.policy.clamped();
    const uint64_t blocks = generation::kv_blocks(*model.engine, policy, spec.text->max_length);
    for (const auto& place : places_of(model))
      add(out, "kv", place, blocks * generation::bytes_per_block(*model.engine, policy));
  }
  return out;
}

uint64_t adapter_bytes(const bus::Served& served) {
  uint64_t bytes = 0;
  for (const auto& use : bus::memory_of(served))
    if (use.what == "adapters") bytes += use.bytes;
  return bytes;
}

}  // namespace weir::models
