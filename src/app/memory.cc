#include "app/memory.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/host_memory.h"
#include "base/log.h"
#include "base/units.h"

namespace weir::app {
namespace {

uint64_t two_requests(const Config& config) { return 2 * std::max(config.limits.body, config.limits.message); }

}  // namespace

void append_memory(std::string& out, const base::MemoryLedger& memory) {
  out +=
      "# HELP weir_tracked_bytes Memory that clients cause, by kind; idle slabs included.\n"
      "# TYPE weir_tracked_bytes gauge\n";
  for (size_t i = 0; i < base::kMemoryKinds; ++i) {
    const auto kind = base::MemoryKind(i);
    out.append("weir_tracked_bytes{kind=\"").append(name(kind)).append("\"} ");
    out += std::to_string(memory.held(kind)) + '\n';
  }
  out +=
      "# HELP weir_overload_step The step of the overload ladder: 1 shrink, 2 close, 3 refuse, 4 stop.\n"
      "# TYPE weir_overload_step gauge\nweir_overload_step " +
      std::to_string(int(memory.overload())) + '\n';
}

void append_slabs(std::string& out, const device::SlabPool& slabs, const base::MemoryLedger& memory) {
  auto gauge = [&](const std::string& name, const char* help, uint64_t value) {
    out += "# HELP " + name + ' ' + help + "\n# TYPE " + name + " gauge\n" + name + ' ' + std::to_string(value) + '\n';
  };
  gauge("weir_slab_bytes", "Memory that requests, batches and answers hold now.", slabs.used());
  gauge("weir_slab_idle_bytes", "Memory kept for the next ones, beside that.", slabs.idle());
  gauge("weir_slab_budget_bytes", "limits.slab_budget: beyond it peers are read more slowly.", memory.budget());
}

uint64_t within_memory(const char* setting, uint64_t wanted, uint64_t least, uint64_t available) {
  const uint64_t taken = std::max(available / 3, least);
  if (wanted <= taken) return wanted;
  base::log::warning(std::string(setting) + " is more than a third of the memory that is there: less is taken",
                     {{"wanted", base::show_size(wanted)},
                      {"available", base::show_size(available)},
                      {"taken", base::show_size(taken)}});
  return taken;
}

void fit_memory(Config& config) {
  config.slab_budget =
      within_memory("limits.slab_budget", config.slab_budget, two_requests(config), base::available_memory());
}

uint64_t pinned_within_memory(const Config& config, uint64_t available) {
  return within_memory("device.pinned_pool", config.pinned_pool, two_requests(config), available);
}

void log_overload(const base::MemoryLedger& memory, base::Overload step) {
  static constexpr std::array<std::string_view, 5> kNames{"none", "shrink", "close", "refuse", "stop"};
  const std::string_view name = kNames[size_t(step)];
  if (step == base::Overload::kNone)
    base::log::info("there is enough memory again", {{"overload", name}});
  else if (step >= base::Overload::kRefuse)
    base::log::warning(memory.shortage(), {{"overload", name}});
  else
    base::log::info(memory.shortage(), {{"overload", name}});
}

}  // namespace weir::app
