// An InferRequest becomes a Call.
//
// Names that are empty or not there go by position among the model's inputs and outputs; a model that takes any tensors
// calls them INPUT0, INPUT1, …. `config` that begins with '{' is one flat JSON object:
//
//   model, version           where the path names none
//   priority (uint)          Call::priority; 0 = the model's default
//   timeout (µs)             Call::queue_timeout; 0 = the model's default
//   id                       Call::id
//   anything else            a parameter of the Call: a string, a number or a boolean
//
// Any other text goes down as the parameter `config`.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "dialects/graphpipe/types.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::graphpipe {

inline constexpr size_t kMaxInputs = 256, kMaxOutputs = 256, kMaxParameters = 256;

// Fills model, version and what else the config says. The path's model and version are in the Call already; a config
// that names others is INVALID_ARGUMENT.
base::Status read_config(std::string_view config, msg::Call& call);

// The elements of String tensors as a Call has them, copied once into `slabs`, by tensor; nothing for the others. Any
// thread. Errors: RESOURCE_EXHAUSTED.
base::Result<std::vector<base::Bytes>> read_strings(const fb::InferRequest& request, base::SlabSource& slabs);

// Fills inputs and outputs. Numbers alias `body`; the elements of String tensors are copied once, into `slabs`. Bytes
// for a BOOL input must be 0 or 1. Names beyond the tensors are ignored; an output may be named more than once. Errors:
// INVALID_ARGUMENT, UNIMPLEMENTED (bfloat16), RESOURCE_EXHAUSTED. `strings`: of read_strings(), where that has been
// called already.
base::Status read_tensors(const fb::InferRequest& request, const base::Bytes& body, const msg::ModelSpec& spec,
                          base::SlabSource& slabs, msg::Call& call, std::span<const base::Bytes> strings = {});

}  // namespace weir::graphpipe
