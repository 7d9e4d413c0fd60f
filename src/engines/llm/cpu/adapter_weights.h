// AdapterWeights: a LoRA adapter's matrices, packed for this CPU as those that they change are.
//
// What is one matrix of a layer is one pair here, also where it is made of several modules (queries, keys and values;
// gates and ups): the rows of their A lie one after the other, each module's filled up to a multiple of 16, and B has
// zeros where an output is of another module. So a pair is two products whatever an adapter changes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "engines/llm/cpu/matrix.h"
#include "engines/llm/load/adapter.h"
#include "engines/llm/load/store.h"

namespace weir::llm {

// y += b (a x); b is times the scale. The outputs of b are those of the matrix beside it. a.outputs = 0: it is not
// changed.
struct LowRankPair {
  Matrix a, b;
  bool there() const { return a.outputs > 0; }
};

struct AdapterLayer {
  LowRankPair qkv, out, gate_up, down;
};

struct AdapterWeights {
  std::vector<AdapterLayer> layers;
  uint64_t bytes() const;
};

struct Model;

// The model that an adapter is for.
struct AdaptedModel {
  const Shape& shape;
  WeightFormat form = WeightFormat::kF32;
  uint64_t bytes = 0;  // that its weights and its other adapters take
};

// `memory`: that those and this one may take. Errors: INVALID_ARGUMENT (a number that is not finite);
// RESOURCE_EXHAUSTED; as Adapter::intact().
base::Result<AdapterWeights> load_adapter(const Adapter& adapter, const AdaptedModel& model, ThreadTeam& team,
                                          uint64_t memory);
// The same for `model`, whose weights are there.
base::Result<AdapterWeights> load_adapter(const Adapter& adapter, const Model& model, ThreadTeam& team,
                                          uint64_t memory = machine_memory());

}  // namespace weir::llm
