// The rotary frequencies of a model, from config.json's rope_theta and rope_scaling (or rope_parameters).
#pragma once

#include "engines/llm/load/fields.h"
#include "engines/llm/load/shape.h"

namespace weir::llm {

// Sets `shape`'s rope, and local_rope where the layers with a window have another: rope_local_base_freq of Gemma 3,
// no scaling of OLMo 3, or rope_parameters per kind of layer. Complaints go to `status`.
//
// default, linear, llama3 (Llama 3.1), yarn (arXiv 2309.00071), longrope (arXiv 2402.13753), and "factors"
// {factors: one for each frequency, which it is divided by}, as GGUF files have llama3. "dynamic" changes with the
// length of the sequence, so that keys could not be kept; it is refused. longrope has factors for short and for long
// texts; as in vLLM those for long ones are taken for all texts if `context` (parse_shape()) is more than
// original_max_position_embeddings, and those for short ones otherwise. max_length, which comes as
// max_position_embeddings, becomes the length that the scaling makes of it, as in vLLM: times factor for linear; for
// yarn original_max_position_embeddings times factor, if that is more; llama3, longrope and Gemma 3 count it already.
void read_ropes(const nlohmann::json& config, uint32_t context, Shape& shape, base::Status& status);

}  // namespace weir::llm
