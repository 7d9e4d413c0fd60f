#include "models/load_notes.h"

#include <utility>

#include "base/clock.h"
#include "bus/response_stats.h"

namespace weir::models {

std::shared_ptr<msg::ReadinessProbe> readiness_probe_of(const Instance& made) {
  const msg::HasReadinessProbe* has = nullptr;
  if (auto* engine = std::get_if<std::unique_ptr<sched::Engine>>(&made))
    has = dynamic_cast<const msg::HasReadinessProbe*>(engine->get());
  if (auto* decoupled = std::get_if<std::unique_ptr<sched::DecoupledEngine>>(&made))
    has = dynamic_cast<const msg::HasReadinessProbe*>(decoupled->get());
  return has ? has->readiness_probe() : nullptr;
}

void keep_durations(bus::Served& served, bus::KeptDurations kept, const ModelConfig& config) {
  if (kept == bus::KeptDurations::kSums) return;
  served.stats.durations = std::make_unique<bus::CallDurations>(kept, config.first_response_ms);
}

void note_load(bus::Served& served, const ModelConfig& config, base::Time began, std::vector<bus::MemoryUse> memory,
               std::vector<std::shared_ptr<msg::ReadinessProbe>> probes) {
  if (auto* tells = dynamic_cast<bus::TellsMemory*>(served.inbox.get())) tells->set_memory(std::move(memory));
  if (auto* has = dynamic_cast<bus::HasLoadNotes*>(served.inbox.get()))
    has->set_load_notes({base::steady_now() - began, msg::all_ready(std::move(probes))});
  if (auto* counts = dynamic_cast<bus::CountsResponses*>(served.inbox.get());
      counts && !config.first_response_ms.empty())
    counts->first_responses().set_bounds(config.first_response_ms);
}

}  // namespace weir::models
