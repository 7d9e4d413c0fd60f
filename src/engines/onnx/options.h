// How a model's session runs: threads, optimisation, memory. Defaults for all models, and a model's own parameters.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engines/onnx/ort_api.h"

namespace weir::onnx {

enum class Arena : uint8_t { kOff, kOn };
enum class Spinning : uint8_t { kOff, kOn };

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

  std::string text() const;  // equal for equal options
};

inline constexpr const char* kPlatform = "onnxruntime_onnx";  // Triton's word for these models

// All that a model's parameters may be called: those of session_options(), and max_batch (signature.h).
inline constexpr std::string_view kParameters[] = {"intra_op_threads",
                                                   "intra_op_thread_count",
                                                   "inter_op_threads",
                                                   "inter_op_thread_count",
                                                   "graph_optimization",
                                                   "memory_arena",
                                                   "enable_mem_arena",
                                                   "spinning",
                                                   "session.intra_op.allow_spinning",
                                                   "max_batch"};

// `defaults` with a model's parameters laid over them; unknown parameters are left to others. Both spellings are read:
//   intra_op_threads, intra_op_thread_count      0 … 1024
//   inter_op_threads, inter_op_thread_count      0 … 1024
//   graph_optimization                           disable | basic | extended | all
//   memory_arena, enable_mem_arena               on | off, true | false, 1 | 0
//   spinning, session.intra_op.allow_spinning    likewise
// INVALID_ARGUMENT names the parameter and what it may be.
base::Result<SessionOptions> session_options(const std::map<std::string, std::string>& parameters,
                                             const SessionOptions& defaults);

}  // namespace weir::onnx
