// Options: the parameters of a model, checked.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "engines/llm/cpu/kernels.h"
#include "engines/llm/load/coding.h"
#include "generation/policy.h"
#include "msg/spec.h"

namespace weir::llm {

// Whether the operations that a device is given again and again become graphs (CUDA graphs), which are queued at once.
enum class Graphs : uint8_t { kOn, kOff };

// Whether attention of prompts may take the kernel for Hopper (cuda/wgmma_check.h).
enum class Wgmma : uint8_t { kOn, kOff };

struct Options {
  generation::TokenPolicy policy;
  uint32_t threads = 1;
  std::vector<int> cores;            // where they run; empty: anywhere
  std::optional<WeightFormat> form;  // nothing: as the file is
  Keep keep = Keep::kAsStored;       // of the layers' matrices
  KvFormat kv_format = KvFormat::kAsComputed;
  std::string device = "auto";   // "auto", "cpu", or what device::Devices::find() knows
  uint32_t tensor_parallel = 1;  // devices that compute the model together: `device` and those behind it
  Graphs graphs = Graphs::kOn;
  Wgmma wgmma = Wgmma::kOn;
  std::optional<base::Duration> step_time;  // as asked for; policy.step_time has it or 0
  std::optional<uint64_t> kv_cache;         // bytes, as asked for; policy.kv_bytes has them or the default
  std::optional<uint32_t> memory_share;     // % of a device's free memory for keys and values
  uint32_t max_length = 0;                  // 0: the model's
  bool adapters = false;                    // the model has some
  const Kernels* kernels = nullptr;
};

// All that a model's parameters may be called: those of read_options(), of encoders (encoder_load.h),
// and tool_format (text::tool_format_named()).
inline constexpr std::string_view kParameters[] = {
    "threads",      "block_size",   "max_running",    "step_tokens",  "max_waiting",
    "max_length",   "kv_cache",     "kv_cache_dtype", "prefix_cache", "dtype",
    "device",       "graphs",       "kernels",        "pooling",      "normalize",
    "tokenizer",    "task",         "step_time",      "max_wait",     "tool_format",
    "memory_share", "prompt_steps", "quantization",   "draft_tokens", "tensor_parallel_size",
    "wgmma"};

// `batching` gives the limit of the queue where no parameter does. Parameters of other names are left to others.
// Errors: INVALID_ARGUMENT, naming the parameter.
base::Result<Options> read_options(const std::map<std::string, std::string>& parameters,
                                   const msg::BatchPolicy& batching = {});

// The length that is asked for, or else the model's; never more than that, which a line in the log says.
uint32_t context_length(const Options& options, std::string_view model, uint32_t most);

// Keeps the threads beside the shards' cores, where there are cores beside: as many threads, unless the parameter
// `threads` says how many; more than those cores are left alone.
void keep_beside(Options& options, const std::map<std::string, std::string>& parameters, std::span<const int> allowed,
                 uint32_t pinned_shards);

}  // namespace weir::llm
