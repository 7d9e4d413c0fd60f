#include "engines/llm/cuda/choice.h"

#include <algorithm>

#include "base/log.h"
#include "engines/llm/cuda/plan.h"
#include "engines/llm/cuda/reference.h"

namespace weir::llm::cuda {
namespace {

constexpr uint32_t kLeastCapability = 8;  // bfloat16 products and asynchronous copies (Ampere)

// The part of a model that devices do not offer; empty: they offer all.
std::string_view cpu_only(const Options& options) {
  if (options.adapters) return "a model with adapters";
  if (options.form == WeightFormat::kF32) return "dtype float32";
  return {};
}

// The part of a layer that no kernel of a device does; empty: there is none.
std::string_view only_on_cpu(const Shape& s) {
  if (s.norms != Norms::kInputs && (s.experts || s.residual_scale != 1))
    return "norms of what experts, or scales, make";
  if (s.activation == Activation::kGelu) return "gates by gelu itself";
  if (!s.experts) return {};
  if (s.experts->count > kMostExperts) return "more than 1024 experts";
  if (s.experts->used > kMostUsed) return "more than 32 experts for a token";
  return {};
}

// A width that no kernel on CUDA takes; 0: there is none.
uint32_t odd_width(const Shape& s) {
  for (uint32_t width :
       {s.hidden, s.intermediate, s.experts ? s.experts->width : 0, s.experts ? s.experts->shared_width : 0})
    if (width % 8) return width;
  return 0;
}

}  // namespace

base::Result<const Kernels*> open_kernels(const device::Device& device, const device::Devices& devices) {
  if (device.info().index < 0) return &reference::table();
  if (const auto& info = device.info(); info.major < kLeastCapability)
    return base::failure(base::Code::kFailedPrecondition, info.id + " (" + info.name + ") has compute capability " +
                                                              std::to_string(info.major) + '.' +
                                                              std::to_string(info.minor) + ", and the kernels need " +
                                                              std::to_string(kLeastCapability) + ".0; use device: cpu");
  auto open = reinterpret_cast<OpenKernels>(devices.module().symbol(kKernelsEntry));
  auto* kernels = open ? open(kKernelsAbi) : nullptr;
  if (!kernels) return base::failure(base::Code::kFailedPrecondition, "libweir_cuda.so has no kernels of this build");
  return kernels;
}

KvCodes codes_of(KvFormat format) {
  return format == KvFormat::kInt8 ? KvCodes::kInt8 : format == KvFormat::kFp8 ? KvCodes::kFp8 : KvCodes::kNone;
}

std::chrono::nanoseconds capture_time(const device::Device& device) {
  return std::chrono::seconds(device.info().index >= 0 ? 10 : 0);
}

base::Status check_widths(const Shape& s, const device::Device& device) {
  auto no = [](const std::string& what) {
    return base::failure(base::Code::kUnimplemented, what + " is not known to the kernels of devices; use device: cpu");
  };
  if (const auto what = only_on_cpu(s); !what.empty()) return no(s.architecture + " (" + std::string(what) + ")");
  if (device.info().index < 0) return {};
  if (!has_attention(s.heads, s.kv_heads, s.head_dim))
    return no(std::to_string(s.heads) + " heads over " + std::to_string(s.kv_heads) + " of " +
              std::to_string(s.head_dim));
  for (uint32_t layer = 0; layer < s.layers; ++layer)
    if (const size_t pairs = s.rope_of(layer).frequencies.size(); pairs % kTurnedTogether)
      return no("a head of which " + std::to_string(2 * pairs) + " dimensions turn");
  if (const uint32_t width = odd_width(s)) return no("a width of " + std::to_string(width));
  return {};
}

base::Result<device::Device*> choose_device(const Options& options, device::Devices* devices, const std::string& model,
                                            const Check& check) {
  constexpr device::Device* kCpu = nullptr;
  const std::string& name = options.device;
  const bool together = options.tensor_parallel > 1;
  if (name == "cpu" && together)
    return base::invalid("parameter 'tensor_parallel_size' is for GPUs, not for device: cpu");
  if (name == "cpu") return kCpu;
  const bool chosen = name != "auto" || together;
  const std::string_view only_on_cpu = cpu_only(options);
  if (!chosen && (!devices || devices->cuda_count() == 0 || !only_on_cpu.empty())) return kCpu;
  if (!devices) return base::failure(base::Code::kFailedPrecondition, "there are no devices");
  auto device = devices->find(name != "auto" ? name : "cuda");
  if (!device) return device.error();
  if (chosen && !only_on_cpu.empty())
    return base::invalid(std::string(only_on_cpu) + " is for device: cpu; devices " +
                         (options.adapters ? "apply none" : "compute in bfloat16"));
  if (chosen) return *device;
  auto kernels = open_kernels(**device, *devices);
  auto status = kernels ? check(**device, **kernels) : kernels.error();
  if (status.ok()) return *device;
  base::log::warning("a model runs on the CPU", {{"model", model}, {"reason", status.text}});
  return kCpu;
}

base::Result<std::vector<device::Device*>> choose_ranks(device::Device& first, device::Devices& devices,
                                                        uint32_t ranks) {
  std::vector<device::Device*> all{&first};
  const std::string& id = first.info().id;
  const size_t colon = std::min(id.find(':'), id.size());
  const uint32_t number = colon < id.size() ? uint32_t(std::stoul(id.substr(colon + 1))) : 0;
  const std::string said = "tensor_parallel_size is " + std::to_string(ranks) + ": ";
  if (ranks > 1 && id == "host") return base::invalid(said + "device host is one device");
  for (uint32_t rank = 1; rank < ranks; ++rank) {
    auto next = devices.find(id.substr(0, colon) + ':' + std::to_string(number + rank));
    if (!next) return base::failure(next.error().code, said + next.error().text);
    all.push_back(*next);
  }
  return all;
}

}  // namespace weir::llm::cuda
