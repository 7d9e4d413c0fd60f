#include "msg/spec.h"

namespace weir::msg {
namespace {

const TensorSpec* find(const std::vector<TensorSpec>& specs, std::string_view name) {
  for (const auto& s : specs)
    if (s.name == name) return &s;
  return nullptr;
}

}  // namespace

const TensorSpec* ModelSpec::input(std::string_view tensor) const { return find(inputs, tensor); }
const TensorSpec* ModelSpec::output(std::string_view tensor) const { return find(outputs, tensor); }

Shape ModelSpec::public_shape(const TensorSpec& tensor) const {
  if (max_batch == 0) return tensor.shape;
  Shape shape{-1};
  for (int64_t d : tensor.shape.dims()) shape.push(d);
  return shape;
}

}  // namespace weir::msg
