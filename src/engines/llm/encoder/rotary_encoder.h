// RotaryEncoder: a model of a Llama-like family as an Encoder: its Transformer's last hidden states.
#pragma once

#include <memory>

#include "engines/llm/cpu/transformer.h"
#include "engines/llm/encoder/encoder.h"

namespace weir::llm {

// `transformer` is of a Shape with `encoder` set and takes steps of limits.pack_tokens. Errors: RESOURCE_EXHAUSTED.
base::Result<std::unique_ptr<Encoder>> make_rotary_encoder(std::unique_ptr<Transformer> transformer,
                                                           const EncoderLimits& limits);

}  // namespace weir::llm
