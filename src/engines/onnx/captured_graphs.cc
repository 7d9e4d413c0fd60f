#include "engines/onnx/captured_graphs.h"

#include <algorithm>
#include <cstdlib>
#include <string>

namespace weir::onnx {
namespace {

using base::Code;
using base::Status;

constexpr int kManyGraphsSince = 17;  // the minor number of the release that has gpu_graph_id

Status check_graphs(const Library& library, const msg::ModelSpec& spec) {
  const std::string parameter = "parameter 'cuda.enable_cuda_graph': ";
  if (library.version.starts_with("1.") && std::atoi(library.version.c_str() + 2) < kManyGraphsSince)
    return base::failure(Code::kFailedPrecondition,
                         parameter + "needs ONNX Runtime 1.17 or newer, this is " + library.version);
  for (const auto& input : spec.inputs)
    if (!input.shape.elements())
      return base::failure(Code::kFailedPrecondition,
                           parameter + "input '" + input.name + "' has no fixed shape: " + input.shape.text());
  return {};
}

std::vector<uint32_t> sizes_of(const msg::ModelSpec& spec) {
  if (spec.max_batch <= 1) return {1};
  std::vector<uint32_t> sizes = spec.batching.preferred;
  sizes.push_back(spec.max_batch);
  std::erase_if(sizes, [&](uint32_t size) { return size == 0 || size > spec.max_batch; });
  for (uint64_t size = 1; size < spec.max_batch && sizes.size() < CapturedGraphs::kMostSizes; size *= 2)
    sizes.push_back(uint32_t(size));
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  if (sizes.size() > CapturedGraphs::kMostSizes) sizes.resize(CapturedGraphs::kMostSizes);
  return sizes;
}

}  // namespace

bool wants_graphs(const msg::ModelSpec& spec) {
  const auto found = spec.parameters.find("cuda.enable_cuda_graph");
  return found != spec.parameters.end() && (found->second == "1" || found->second == "true");
}

base::Result<CapturedGraphs> CapturedGraphs::make(const Library& library, const msg::ModelSpec& spec, uint32_t slots,
                                                  const void* stream) {
  if (auto s = check_graphs(library, spec); !s.ok()) return s;
  CapturedGraphs graphs;
  graphs.sizes_ = sizes_of(spec);
  auto none = make_run_options(library, stream, "-1");
  if (!none) return none.error();
  graphs.without_ = std::move(*none);
  int number = 0;
  for (uint32_t slot = 0; slot < slots; ++slot)
    for (uint32_t rows : graphs.sizes_) {
      auto options = make_run_options(library, stream, std::to_string(++number).c_str());
      if (!options) return options.error();
      graphs.captured_.emplace(std::pair(slot, rows), std::move(*options));
    }
  return graphs;
}

const OrtRunOptions* CapturedGraphs::options(uint32_t slot, uint32_t rows, Tensors tensors) const {
  const auto found = captured_.find({slot, rows});
  return tensors == Tensors::kAll && found != captured_.end() ? found->second.get() : without_.get();
}

}  // namespace weir::onnx
