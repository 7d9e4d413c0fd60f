// How a model's session runs: threads, optimisation, memory. Defaults for all models, and a model's own parameters.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engines/onnx/ort_api.h"
#include "engines/onnx/providers.h"

namespace weir::onnx {

enum class Arena : uint8_t { kOff, kOn };
enum class Spinning : uint8_t { kOff, kOn };
// Which first dimensions inputs may have: up to the model's max_batch, or any. kAny also where the configuration leaves
// max_batch to the file: whether it is batched then is known once the session is there.
enum class Rows : uint8_t { kAny, kUpToMaxBatch };

struct SessionOptions {
  // Threads within one operator, the lane's own included; 0 = one per core. With one, a step runs on its lane alone,
  // and `instances` is what uses more cores.
  uint32_t intra_op_threads = 1;
  // Operators side by side, where the graph has branches; 1 = one after the other.
  uint32_t inter_op_threads = 1;
  Optimization optimization = Optimization::kAll;
  Arena arena = Arena::kOn;            // keeps freed memory for the next step
  Spinning spinning = Spinning::kOff;  // idle pool threads burn a core to answer sooner
  // Libraries that register operators of their own with each session. Of the server's configuration alone: a model that
  // could name one could run any code.
  std::vector<std::string> custom_ops{};

  std::vector<Provider> providers{};
  std::map<std::string, std::string> entries{};  // of the session's configuration, as ONNX Runtime calls them
  Placement placement{};
  Rows rows = Rows::kAny;  // of the model's configuration

  std::string text() const;  // equal for equal options
};

inline constexpr const char* kPlatform = "onnxruntime_onnx";  // Triton's word for these models

// All that a model's parameters may be called: those of session_options(), of the providers, and max_batch
// (signature.h); `device`, `in_flight` and `pinned` are those of a model on a device (runtime.h).
std::vector<std::string_view> parameter_names();

// `defaults` with a model's parameters laid over them; unknown parameters are left to others. Both spellings are read:
//   intra_op_threads, intra_op_thread_count      0 … 1024
//   inter_op_threads, inter_op_thread_count      0 … 1024
//   graph_optimization                           disable | basic | extended | all
//   memory_arena, enable_mem_arena               on | off, true | false, 1 | 0
//   spinning, session.intra_op.allow_spinning    likewise
// and those of providers.h, for `device`.
// INVALID_ARGUMENT names the parameter and what it may be.
base::Result<SessionOptions> session_options(const std::map<std::string, std::string>& parameters,
                                             const SessionOptions& defaults);

}  // namespace weir::onnx
