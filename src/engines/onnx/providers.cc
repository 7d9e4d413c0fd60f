#include "engines/onnx/providers.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/encoding.h"
#include "engines/onnx/error.h"

namespace weir::onnx {
namespace {

using base::Status;

constexpr std::string_view kCuda[] = {"cuda.gpu_mem_limit",
                                      "cuda.arena_extend_strategy",
                                      "cuda.cudnn_conv_algo_search",
                                      "cuda.cudnn_conv_use_max_workspace",
                                      "cuda.cudnn_conv1d_pad_to_nc1d",
                                      "cuda.enable_skip_layer_norm_strict_mode",
                                      "cuda.tunable_op_enable",
                                      "cuda.tunable_op_tuning_enable",
                                      "cuda.tunable_op_max_tuning_duration_ms",
                                      "cuda.prefer_nhwc",
                                      "cuda.use_ep_level_unified_stream",
                                      "cuda.use_tf32",
                                      "cuda.fuse_conv_bias",
                                      "cuda.enable_cuda_graph",
                                      "cuda.sdpa_kernel"};
constexpr std::string_view kTensorrt[] = {"tensorrt.trt_max_workspace_size",
                                          "tensorrt.trt_max_partition_iterations",
                                          "tensorrt.trt_min_subgraph_size",
                                          "tensorrt.trt_fp16_enable",
                                          "tensorrt.trt_bf16_enable",
                                          "tensorrt.trt_int8_enable",
                                          "tensorrt.trt_dla_enable",
                                          "tensorrt.trt_dla_core",
                                          "tensorrt.trt_force_sequential_engine_build",
                                          "tensorrt.trt_context_memory_sharing_enable",
                                          "tensorrt.trt_layer_norm_fp32_fallback",
                                          "tensorrt.trt_build_heuristics_enable",
                                          "tensorrt.trt_sparsity_enable",
                                          "tensorrt.trt_builder_optimization_level",
                                          "tensorrt.trt_auxiliary_streams",
                                          "tensorrt.trt_profile_min_shapes",
                                          "tensorrt.trt_profile_max_shapes",
                                          "tensorrt.trt_profile_opt_shapes",
                                          "tensorrt.trt_op_types_to_exclude"};
constexpr std::string_view kOpenvino[] = {"openvino.device_type",    "openvino.precision",
                                          "openvino.num_of_threads", "openvino.num_streams",
                                          "openvino.model_priority", "openvino.disable_dynamic_shapes"};
constexpr std::string_view kEntries[] = {"session.intra_op_thread_affinities",
                                         "session.inter_op.allow_spinning",
                                         "session.force_spinning_stop",
                                         "session.dynamic_block_base",
                                         "session.set_denormal_as_zero",
                                         "session.disable_prepacking",
                                         "session.disable_quant_qdq",
                                         "session.enable_quant_qdq_cleanup",
                                         "session.disable_double_qdq_remover",
                                         "session.qdqisint8allowed",
                                         "session.use_device_allocator_for_initializers",
                                         "session.disable_cpu_ep_fallback",
                                         "session.disable_aot_function_inlining",
                                         "optimization.enable_gelu_approximation",
                                         "optimization.enable_cast_chain_elimination",
                                         "optimization.disable_specified_optimizers"};
// An entry that has a parameter of its own (options.h).
constexpr std::string_view kSpinning = "session.intra_op.allow_spinning";

constexpr std::string_view kGraphs = "cuda.enable_cuda_graph";

struct Known {
  ProviderKind kind;
  std::string_view name;
  const std::string_view *begin, *end;  // of its options
};
const Known kProviders[] = {{ProviderKind::kCuda, "cuda", std::begin(kCuda), std::end(kCuda)},
                            {ProviderKind::kTensorrt, "tensorrt", std::begin(kTensorrt), std::end(kTensorrt)},
                            {ProviderKind::kOpenvino, "openvino", std::begin(kOpenvino), std::end(kOpenvino)}};

std::vector<std::string> split_names(std::string_view text) {
  std::vector<std::string> names(1);
  for (char c : text) {
    if (c == ',' || c == ' ') {
      if (!names.back().empty()) names.emplace_back();
    } else {
      names.back() += c;
    }
  }
  if (names.back().empty()) names.pop_back();
  return names;
}

Status unknown(const std::string& parameter, const std::vector<std::string_view>& names) {
  std::string text = "parameter '" + parameter + "': there is no such option, or it is not taken from a model";
  if (auto near = base::near_miss(parameter, names); !near.empty())
    text += "; did you mean '" + std::string(near) + "'?";
  return base::invalid(std::move(text));
}

base::Result<Provider> named(const std::string& name) {
  for (const auto& known : kProviders)
    if (known.name == name) return Provider{known.kind};
  return base::invalid("parameter 'providers': expected cuda, tensorrt and openvino, got '" + name + "'");
}

Status read_option(const std::string& parameter, const std::string& value, const Known& known,
                   std::vector<Provider>& providers) {
  if (std::find(known.begin, known.end, parameter) == known.end) return unknown(parameter, {known.begin, known.end});
  auto of = std::find_if(providers.begin(), providers.end(), [&](const auto& p) { return p.kind == known.kind; });
  if (of == providers.end() && parameter == kGraphs) return {};  // a config.pbtxt does not know the device
  if (of == providers.end())
    return base::invalid("parameter '" + parameter + "': the model does not use the provider '" +
                         std::string(known.name) + "' (parameter 'providers')");
  of->options[parameter.substr(known.name.size() + 1)] = value;
  return {};
}

struct NamedOptions {  // as the library takes them
  explicit NamedOptions(const std::map<std::string, std::string>& all) {
    for (const auto& [key, value] : all) keys.push_back(key.c_str()), values.push_back(value.c_str());
  }
  std::vector<const char*> keys, values;
};

// CUDA and TensorRT have functions of the same form.
template <class Raw>
struct GpuFunctions {
  OrtStatus* (*create)(Raw**);
  OrtStatus* (*update)(Raw*, const char* const*, const char* const*, size_t);
  OrtStatus* (*set)(Raw*, const char*, void*);
  OrtStatus* (*append)(OrtSessionOptions*, const Raw*);
  void (*release)(Raw*);
};

template <class Raw>
Status append_gpu(const Api& api, OrtSessionOptions* options, const Provider& provider, const Placement& placement,
                  const GpuFunctions<Raw>& functions) {
  Raw* raw = nullptr;
  if (auto s = to_status(api, functions.create(&raw)); !s.ok()) return s;
  Owned<Raw> owned(raw, functions.release);
  auto all = provider.options;
  all["device_id"] = std::to_string(std::max(placement.gpu, 0));
  NamedOptions words(all);
  if (auto s = to_status(api, functions.update(raw, words.keys.data(), words.values.data(), words.keys.size()));
      !s.ok())
    return s;
  if (placement.stream)
    if (auto s = to_status(api, functions.set(raw, "user_compute_stream", placement.stream)); !s.ok()) return s;
  return to_status(api, functions.append(options, raw));
}

Status append(const Api& api, OrtSessionOptions* options, const Provider& provider, const Placement& placement) {
  if (provider.kind == ProviderKind::kCuda)
    return append_gpu<OrtCudaOptions>(
        api, options, provider, placement,
        {api.create_cuda, api.update_cuda, api.set_cuda, api.append_cuda, api.release_cuda});
  if (provider.kind == ProviderKind::kTensorrt)
    return append_gpu<OrtTensorrtOptions>(
        api, options, provider, placement,
        {api.create_tensorrt, api.update_tensorrt, api.set_tensorrt, api.append_tensorrt, api.release_tensorrt});
  if (!api.append_openvino)
    return base::failure(base::Code::kUnimplemented, "the provider 'openvino' needs ONNX Runtime 1.18 or newer");
  NamedOptions words(provider.options);
  return to_status(api, api.append_openvino(options, words.keys.data(), words.values.data(), words.keys.size()));
}

}  // namespace

std::vector<std::string_view> provider_parameters() {
  std::vector<std::string_view> all(std::begin(kEntries), std::end(kEntries));
  for (const auto& known : kProviders) all.insert(all.end(), known.begin, known.end);
  return all;
}

base::Result<std::vector<Provider>> read_providers(const Words& parameters, std::string_view device) {
  std::vector<Provider> providers;
  auto wanted = parameters.find("providers");
  for (const auto& name : split_names(wanted == parameters.end() ? std::string_view() : wanted->second)) {
    auto provider = named(name);
    if (!provider) return provider.error();
    for (const auto& other : providers)
      if (other.kind == provider->kind) return base::invalid("parameter 'providers': '" + name + "' is there twice");
    providers.push_back(std::move(*provider));
  }
  if (wanted == parameters.end() && device.starts_with("cuda")) providers.push_back({ProviderKind::kCuda});
  for (const auto& [key, value] : parameters)
    for (const auto& known : kProviders)
      if (key.size() > known.name.size() && key.starts_with(known.name) && key[known.name.size()] == '.')
        if (auto s = read_option(key, value, known, providers); !s.ok()) return s;
  if (!device.starts_with("cuda"))
    std::erase_if(providers, [](const auto& p) { return p.kind != ProviderKind::kOpenvino; });
  return providers;
}

base::Result<Words> read_entries(const Words& parameters) {
  Words entries;
  for (const auto& [key, value] : parameters) {
    if ((!key.starts_with("session.") && !key.starts_with("optimization.")) || key == kSpinning) continue;
    if (std::find(std::begin(kEntries), std::end(kEntries), key) == std::end(kEntries))
      return unknown(key, {std::begin(kEntries), std::end(kEntries)});
    entries[key] = value;
  }
  return entries;
}

Status append_provider(const Api& api, OrtSessionOptions* options, const Provider& provider,
                       const Placement& placement) {
  Status status = append(api, options, provider, placement);
  if (status.ok() || status.code == base::Code::kUnimplemented) return status;
  std::string_view name;
  for (const auto& known : kProviders)
    if (known.kind == provider.kind) name = known.name;
  return base::failure(base::Code::kFailedPrecondition,
                       "ONNX Runtime has no provider '" + std::string(name) + "' here: " + status.text);
}

}  // namespace weir::onnx
