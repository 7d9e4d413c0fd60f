// The llm engine's maker: a Hugging Face folder becomes an Engine whose own Inbox batches tokens continuously; or, where
// it is an encoder (encoder_load.h, with parameters of its own), a model of tensors that lanes batch by rows.
//
// Parameters of model.yaml: kv_cache ("512MiB"), block_size (16), max_running (64), step_tokens (512), max_waiting
// (256), prefix_cache (on), threads (all cores but one; both of two), dtype (auto, float32, bfloat16; auto is bfloat16
// for files of bfloat16 or float16 and float32 else), max_length (the model's), kernels (the best that the CPU runs).
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "msg/spec.h"
#include "sched/engine.h"

namespace weir::llm {

// `config` is the path of config.json; the other files lie beside it. Errors: INVALID_ARGUMENT, UNIMPLEMENTED,
// NOT_FOUND, RESOURCE_EXHAUSTED, naming the file or the parameter. Any thread.
base::Result<std::unique_ptr<sched::Engine>> load(const msg::ModelSpec& wanted, const std::string& config);

}  // namespace weir::llm
