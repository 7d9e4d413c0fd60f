// The memory ledger as the operator sees it: metric families and lines of the log; and how large it may be. Any thread.
#pragma once

#include <string>

#include "app/config.h"
#include "base/memory_ledger.h"
#include "device/pool.h"

namespace weir::app {

// weir_tracked_bytes{kind} and weir_overload_step, as Prometheus text.
void append_memory(std::string& out, const base::MemoryLedger& memory);

// weir_slab_bytes, weir_slab_idle_bytes and weir_slab_budget_bytes, as Prometheus text.
void append_slabs(std::string& out, const device::SlabPool& slabs, const base::MemoryLedger& memory);

// The bytes that a `setting` asks for, or a third of the `available` bytes (base/host_memory.h) where that is less: a
// container may have less memory than the setting says, and the kernel ends who takes more. The rest is for models. At
// least `least`. Says in the log when less is taken.
uint64_t within_memory(const char* setting, uint64_t wanted, uint64_t least, uint64_t available);
void fit_memory(Config& config);  // limits.slab_budget, by what there is now
// device.pinned_pool where there is CUDA: all of it is taken at once, and cannot be swapped.
uint64_t pinned_within_memory(const Config& config, uint64_t available);

// One line per new step of the overload ladder; a warning while requests are refused.
void log_overload(const base::MemoryLedger& memory, base::Overload step);

}  // namespace weir::app
