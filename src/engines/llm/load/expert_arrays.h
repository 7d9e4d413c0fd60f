// Experts that a checkpoint of Hugging Face holds in one array for each layer, as arrays of each expert with the names
// that the other mixtures have.
//
//   granitemoe   block_sparse_moe.input_linear.weight [experts][gates, then ups][hidden], output_linear.weight
//                [experts][hidden][width], router.layer.weight
//   gpt-oss      mlp.experts.gate_up_proj [experts][hidden][gates and ups in turn], down_proj [experts][width][hidden],
//                both with _bias; in MXFP4 each is _blocks U8 [experts][outputs][inputs / 32][16], the two numbers of a
//                byte neighbours, with _scales U8 [experts][outputs][inputs / 32], exponents; mlp.router
//
// They become mlp.experts.N.gate_proj, up_proj, down_proj, or gate_up_proj; their blocks and scales "….blocks",
// "….scales"; the router mlp.gate. Those of each expert are in place of the one array.
#pragma once

#include "base/status.h"
#include "engines/llm/load/array.h"

namespace weir::llm {

// Errors: INVALID_ARGUMENT, naming the array.
base::Status part_packed_experts(Arrays& arrays);

}  // namespace weir::llm
