#include "dialects/oip/traced_tensors.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/encoding.h"
#include "marshal/json_tensor.h"

namespace weir::oip {
namespace {

std::string joined(const msg::Shape& shape) {
  std::string out;
  for (int64_t size : shape.dims()) (out += out.empty() ? "" : ",") += std::to_string(size);
  return out.empty() ? "1" : out;
}

// Appends strings while there is room for their text; returns how many.
size_t add_strings(std::string& out, std::string_view data) {
  size_t count = 0;
  while (data.size() >= sizeof(uint32_t) && out.size() < TracedTensors::kMostBytes) {
    uint32_t size;
    std::memcpy(&size, data.data(), sizeof size);
    data.remove_prefix(sizeof size);
    if (size > data.size()) break;
    if (count++ > 0) out += ',';
    marshal::write_string(out, base::cut_text(data.substr(0, size), TracedTensors::kMostBytes));
    data.remove_prefix(size);
  }
  return count;
}

size_t add_numbers(std::string& out, const msg::Tensor& tensor) {
  constexpr size_t kWidest = 8;  // characters of most elements, with a comma
  const auto dtype = tensor.dtype == msg::DType::kBool ? msg::DType::kUint8 : tensor.dtype;  // 0 and 1, as Triton
  const size_t size = msg::size_of(dtype);
  const size_t count = std::min(tensor.data.size() / size, TracedTensors::kMostBytes / kWidest);
  marshal::write_elements(out, dtype, tensor.data.view().substr(0, count * size), {});
  return count;
}

uint64_t bytes_of(const TracedTensor& one) {
  return sizeof one + one.name.capacity() + one.shape.capacity() + one.data.capacity() + one.whole.capacity();
}

TracedTensor traced(std::string_view activity, const msg::Tensor& tensor) {
  TracedTensor one{activity, std::string(base::cut_text(tensor.name, TracedTensors::kLongestName)),
                   msg::name(tensor.dtype)};
  const bool strings = tensor.dtype == msg::DType::kBytes;
  const size_t count = strings ? add_strings(one.data, tensor.data.view()) : add_numbers(one.data, tensor);
  one.shape = joined(tensor.shape);
  if (count == tensor.shape.elements().value_or(UINT64_MAX)) return one;
  one.whole = std::exchange(one.shape, std::to_string(count));
  return one;
}

}  // namespace

void TracedTensors::add(std::string_view activity, const std::vector<msg::Tensor>& tensors) {
  for (const auto& tensor : tensors) {
    if (all_.size() >= kMostTensors) return;
    if (tensor.dtype == msg::DType::kInvalid) continue;
    TracedTensor one = traced(activity, tensor);
    if (charge_.grow(bytes_of(one)))
      all_.push_back(std::move(one));
    else
      ++left_out_;
  }
}

}  // namespace weir::oip
