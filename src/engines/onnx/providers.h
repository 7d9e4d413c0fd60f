// Execution providers: what ONNX Runtime computes with beside its own code for CPUs. CUDA and TensorRT come with the
// library that the operator has installed (engines.onnx.library); so does OpenVINO.
//
// A model names providers in the order in which they take parts of its graph, and their options, by parameters:
//   providers: tensorrt, cuda    or openvino; cuda and tensorrt count for instances on GPUs, which have cuda by default
//   cuda.gpu_mem_limit: 1000     an option of a provider, as ONNX Runtime calls it
//   session.set_denormal_as_zero: 1    an entry of the session's configuration (session.…, optimization.…), likewise
//
// Options that name files or libraries are not taken: a model that could name one could read any file, or run any code.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engines/onnx/ort_api.h"

namespace weir::onnx {

enum class ProviderKind : uint8_t { kCuda, kTensorrt, kOpenvino };

struct Provider {
  ProviderKind kind{};
  std::map<std::string, std::string> options{};  // as ONNX Runtime calls them
};

// The names of all parameters above, but `providers`.
std::vector<std::string_view> provider_parameters();

using Words = std::map<std::string, std::string>;
// The providers that the parameters name, for a model on `device` ("cuda:1", or none). Errors: INVALID_ARGUMENT for a
// provider or an option that there is not; for an option of a provider that is not named.
base::Result<std::vector<Provider>> read_providers(const Words& parameters, std::string_view device);
// The entries of the session's configuration. Errors: INVALID_ARGUMENT for one that is not taken.
base::Result<Words> read_entries(const Words& parameters);

// Where a session computes.
struct Placement {
  int32_t gpu = -1;        // number of a CUDA device; -1: none
  void* stream = nullptr;  // of that device, for all of the session's work; null: one of the library's own
};
// Errors: FAILED_PRECONDITION where the library has no such provider, with its words.
base::Status append_provider(const Api& api, OrtSessionOptions* options, const Provider& provider,
                             const Placement& placement);

}  // namespace weir::onnx
