// The memory ledger as the operator sees it: metric families and lines of the log. Any thread.
#pragma once

#include <string>

#include "base/memory_ledger.h"
#include "device/pool.h"

namespace weir::app {

// weir_tracked_bytes{kind} and weir_overload_step, as Prometheus text.
void append_memory(std::string& out, const base::MemoryLedger& memory);

// weir_slab_bytes, weir_slab_idle_bytes and weir_slab_budget_bytes, as Prometheus text.
void append_slabs(std::string& out, const device::SlabPool& slabs, const base::MemoryLedger& memory);

// One line per new step of the overload ladder; a warning while requests are refused.
void log_overload(const base::MemoryLedger& memory, base::Overload step);

}  // namespace weir::app
