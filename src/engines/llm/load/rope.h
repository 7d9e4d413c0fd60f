// The rotary frequencies of a model, from config.json's rope_theta and rope_scaling (or rope_parameters).
#pragma once

#include "engines/llm/load/fields.h"
#include "engines/llm/load/shape.h"

namespace weir::llm {

// default, linear, llama3 (Llama 3.1), yarn (arXiv 2309.00071), and "factors" {factors: one for each frequency, which
// it is divided by}, as GGUF files have llama3. "dynamic" changes with the length of the sequence, so that keys could
// not be kept; it and "longrope" are refused. Complaints go to `status`. `max_length`, which comes as
// max_position_embeddings, becomes the length that the scaling makes of it, as in vLLM: times factor for linear; for
// yarn original_max_position_embeddings times factor, if that is more; llama3 counts it already.
Rope make_rope(const nlohmann::json& config, uint32_t head_dim, uint32_t& max_length, base::Status& status);

}  // namespace weir::llm
