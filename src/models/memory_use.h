// The memory that a version has while it is loaded, by place, for its statistics.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "bus/memory_use.h"
#include "generation/token_model.h"
#include "sched/engine.h"

namespace weir::models {

// Weights are `version_bytes` (models/estimate.h): the instances of a model of tensors share them where they are in one
// place, and each instance of a model of tokens has its own part, cut evenly where several devices compute it. Keys and
// values are as many as make_token_lane() reserves. The instances are those of one version, so that one of the two
// lists is empty; `spec` is what it is served with.
std::vector<bus::MemoryUse> memory_of(const std::vector<std::unique_ptr<sched::Engine>>& engines,
                                      const std::vector<generation::TokenModel>& token_models,
                                      const msg::ModelSpec& spec, uint64_t version_bytes);

// Those of "adapters".
uint64_t adapter_bytes(const bus::Served& served);

}  // namespace weir::models
