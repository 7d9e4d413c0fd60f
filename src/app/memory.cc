#include "app/memory.h"

#include <array>
#include <string_view>

#include "base/log.h"

namespace weir::app {

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
