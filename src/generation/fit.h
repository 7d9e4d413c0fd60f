// Whether a model of tokens can run a Call: checked before it is queued, on the thread that puts it.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "msg/adapter_loader.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::generation {

// Positions that one sequence may have: what the model allows and what its keys and values have room for.
struct TokenRoom {
  uint32_t blocks = 0, block_size = 0;
  uint32_t positions(const msg::TextSpec& text) const;
};

// Checks what only the model and its memory can tell; ranges of sampling are the dialects' (GenerationParams). It
// checks what is new, and never the history. Errors: INVALID_ARGUMENT (no generation, nothing to run, an id outside of
// the vocabulary, an image that does not lie in what is appended), OUT_OF_RANGE (longer than the context, or than all
// blocks together: no other time would do), UNAVAILABLE (a model that has come back to memory without the adapter).
// `adapters`: the engine's; null: it takes none beside those of the spec.
base::Status fits_tokens(const msg::Call& call, const msg::ModelSpec& spec, TokenRoom room,
                         const msg::AdapterLoader* adapters = nullptr);

}  // namespace weir::generation
