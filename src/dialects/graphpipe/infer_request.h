// Reads an InferRequest into a Call.
//
// A tensor without a name is the model's input, or output, of the same position; for a model that takes any tensors it
// is INPUT0, INPUT1, …. If `config` begins with '{' it is one flat JSON object:
//
//   model, version           where the path names none
//   priority (uint)          Call::priority; 0 = the model's default
//   timeout (µs)             Call::queue_timeout; 0 = the model's default
//   id                       Call::id
//   anything else            a parameter of the Call: a string, a number or a boolean
//
// Any other `config` becomes the Call's parameter `config`.
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

// Sets what `config` says, in 256 KiB at most. The Call has the path's model and version already. Errors:
// INVALID_ARGUMENT, also for a config that names another model or version than the path.
base::Status read_config(std::string_view config, msg::Call& call);

// For each tensor of the request: the elements of a String tensor as a Call has them, in `slabs`; empty Bytes for other
// types. Any thread. Errors: RESOURCE_EXHAUSTED.
base::Result<std::vector<base::Bytes>> read_strings(const fb::InferRequest& request, base::SlabSource& slabs);

// Fills inputs and outputs. Numbers alias `body`; the elements of String tensors are copied once, into `slabs`. Bytes
// for a BOOL input must be 0 or 1. Names beyond the tensors are ignored; an output may be named more than once.
// `strings`: the result of read_strings(), or empty if it was not called. Errors: INVALID_ARGUMENT, UNIMPLEMENTED
// (bfloat16), RESOURCE_EXHAUSTED.
base::Status read_tensors(const fb::InferRequest& request, const base::Bytes& body, const msg::ModelSpec& spec,
                          base::SlabSource& slabs, msg::Call& call, std::span<const base::Bytes> strings = {});

}  // namespace weir::graphpipe
