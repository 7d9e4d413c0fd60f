// A load notes at a version what its calls' durations are kept in, and, at its outermost Inbox, what it has found
// out (bus/load_notes.h, bus/memory_use.h).
#pragma once

#include <memory>
#include <vector>

#include "base/env.h"
#include "bus/load_notes.h"
#include "bus/memory_use.h"
#include "models/model_config.h"
#include "models/repository.h"

namespace weir::models {

// Null: the model of that instance says nothing about its readiness.
std::shared_ptr<msg::ReadinessProbe> readiness_probe_of(const Instance& made);

// Before its Inbox is made.
void keep_durations(bus::Served& served, bus::KeptDurations kept, const ModelConfig& config);

// Before anybody reads: the load has begun at `began` and is over.
void note_load(bus::Served& served, const ModelConfig& config, base::Time began, std::vector<bus::MemoryUse> memory,
               std::vector<std::shared_ptr<msg::ReadinessProbe>> probes);

}  // namespace weir::models
