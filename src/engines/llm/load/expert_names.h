// Names of the arrays of a mixture of experts, behind that of the layer.
#pragma once

#include <string>

#include "engines/llm/load/shape.h"

namespace weir::llm {

// Expert N has mixture + "experts.N." + gate, up and down; the router is mixture + "gate".
struct ExpertNames {
  std::string mixture, gate, up, down;
};

inline ExpertNames expert_names(const Shape& s) {
  if (s.architecture == "MixtralForCausalLM") return {"block_sparse_moe.", "w1", "w3", "w2"};
  return {"mlp.", "gate_proj", "up_proj", "down_proj"};
}

}  // namespace weir::llm
