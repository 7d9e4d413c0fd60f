#include "msg/spec.h"

#include <algorithm>

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

base::Status ModelSpec::no_output(std::string_view tensor) const {
  return base::failure(any_tensors ? base::Code::kInvalidArgument : base::Code::kInternal,
                       "model '" + name + "' made no output '" + std::string(tensor) + "'");
}

std::vector<uint64_t> VersionPolicy::choose(const std::vector<uint64_t>& present) const {
  switch (kind) {
    case Kind::kAll: return present;
    case Kind::kLatest: return {present.end() - ptrdiff_t(std::min<size_t>(latest, present.size())), present.end()};
    case Kind::kSpecific: break;
  }
  std::vector<uint64_t> chosen;
  for (uint64_t v : present)
    if (std::find(specific.begin(), specific.end(), v) != specific.end()) chosen.push_back(v);
  return chosen;
}

}  // namespace weir::msg
