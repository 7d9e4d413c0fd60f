// The llm engine's maker: a Hugging Face folder, or a GGUF file, becomes a model of tokens, which token lanes batch
// continuously; or, where the folder is an encoder (encoder_load.h, with parameters of its own), an Engine that lanes
// batch by rows.
//
// Parameters of model.yaml: kv_cache (bytes of keys and values; else half of the memory that is free when the model
// loads, at most a quarter of max_running whole contexts, or 512MiB where that is more; on CUDA what 85% of the memory
// leave beside the weights), block_size (16), max_running (64), step_tokens (512, the most that a step has), step_time
// (40ms on the CPU, 0 on devices: a step with prompts alone takes five times as long, one beside running sequences
// twice a step of these, a quarter of 40ms at least; this decides how many of their tokens it has; 0: step_tokens),
// prompt_steps (4 on devices, 1 on the CPU: steps that a prompt is spread over while others wait for their next token),
// max_wait (60s: a request that would wait longer for its beginning is refused with 429; 0: any time), max_waiting (as
// many requests; batching.max_queue where that is not its default, else 1048576), prefix_cache (on), threads (all cores
// but one, or but the shards' where these are fewer; both of two), dtype (auto, float32, bfloat16; auto is bfloat16 for
// files of bfloat16 and for what is quantized, and float32 else), quantization (auto: matrices of a quantized
// checkpoint stay in its codes; none: bfloat16, or what dtype says; int8 and int4: the layers' matrices are quantized
// here), max_length (the model's, and never more than one sequence can have in kv_cache), kv_cache_dtype (auto: as the
// model computes; int8, or fp8, which is E4M3: half of the memory), kernels
// (the best that the CPU runs), device (auto, cpu, cuda, cuda:N, host; auto is the first CUDA device where there is one
// that knows the model's shape and can load it, and dtype is not float32, and the CPU else; host runs the device's
// engine without one, slowly, for tests), graphs (on; off: decode steps and small packs of encoders do not become CUDA
// graphs; they are captured while the model loads, for at most ten seconds, and the rest when it is wanted for the
// second time). Devices compute in bfloat16. tool_format (auto: by the chat template; or a name that text/tool_format.h
// has): how the model writes calls of tools. tensor_parallel_size (1): so many devices compute the model together,
// `device` and those behind it (cuda:2 and cuda:3), each with its part of the weights, and of the keys and values:
// kv_cache is then bytes of each. A device is in one such group at a time.
//
// ModelSpec::adapters are LoRA adapters (load/adapter.h), on the CPU: `auto` takes that for a model that has some.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <variant>

#include "base/host_memory.h"
#include "base/status.h"
#include "generation/token_model.h"
#include "msg/spec.h"
#include "sched/engine.h"

namespace weir::device {
class Devices;
}

namespace weir::llm {

// The services that `device` needs; null without devices, which outlive the engine. `broken` is called once, from the
// lane, when the device is lost and the engine cannot go on.
struct Place {
  device::Devices* devices = nullptr;
  std::function<void(base::Status)> broken{};
  uint32_t pinned_shards = 0;  // the first cores of this process have a shard each, pinned to them
  // The memory of which keys and values on the CPU are reserved; outlives the engine. Null: they have 512 MiB.
  base::HostMemory* host_memory = nullptr;
  // Asked before each array of the weights is read, and before each model's turn on a device. False: nobody wants the
  // model any more. Null: it is wanted.
  std::function<bool()> loading{};
  // Waits until no other model is being loaded on that device ("cuda:0"), and keeps others waiting until the result is
  // destroyed; null where nobody wants the model any more. Without it nobody else may load at the same time.
  std::function<std::shared_ptr<void>(const std::string& device)> turn{};
};

// An encoder, or a model of tokens.
using Loaded = std::variant<std::unique_ptr<sched::Engine>, generation::TokenModel>;

// `config` is the path of config.json, and the other files lie beside it; or of a GGUF file, which says all of this.
// Errors: INVALID_ARGUMENT, UNIMPLEMENTED, NOT_FOUND, RESOURCE_EXHAUSTED, naming the file or the parameter; of the
// device FAILED_PRECONDITION, UNAVAILABLE. A device at fault is restarted. Any thread; models load beside each other,
// but one at a time on each GPU: each takes a part of what is free there for its keys and values.
base::Result<Loaded> load(const msg::ModelSpec& wanted, const std::string& config, const Place& place = {});

}  // namespace weir::llm
