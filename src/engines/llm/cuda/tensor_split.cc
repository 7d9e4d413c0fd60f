#include "engines/llm/cuda/tensor_split.h"

#include <string>
#include <string_view>

namespace weir::llm::cuda {
namespace {

// The part of a layer that is not cut; empty: there is none.
std::string_view uncut(const Shape& s) {
  if (s.experts) return "mixtures of experts";
  if (s.norms != Norms::kInputs) return "norms of what attention and the MLP add";
  if (s.qk_norm_whole) return "norms of all heads together";
  if (s.sinks) return "attention sinks";
  return {};
}

}  // namespace

base::Status check_split(const Shape& shape, uint32_t ranks) {
  if (ranks == 1) return {};
  const std::string count = std::to_string(ranks);
  if (const auto what = uncut(shape); !what.empty())
    return base::failure(base::Code::kUnimplemented, shape.architecture + " (" + std::string(what) +
                                                         ") is not split over devices; leave out tensor_parallel_size");
  if (shape.kv_heads % ranks)
    return base::invalid("tensor_parallel_size is " + count + ", which does not divide the model's " +
                         std::to_string(shape.kv_heads) + " heads of keys and values");
  if (shape.intermediate % ranks)
    return base::invalid("tensor_parallel_size is " + count + ", which does not divide the MLP's width of " +
                         std::to_string(shape.intermediate));
  return {};
}

Shape split_shape(Shape shape, uint32_t ranks) {
  shape.heads /= ranks, shape.kv_heads /= ranks, shape.intermediate /= ranks;
  return shape;
}

}  // namespace weir::llm::cuda
