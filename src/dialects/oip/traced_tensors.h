// TracedTensors: the tensors of a request that is traced (trace_level TENSORS), as texts of a bounded length.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "msg/tensor.h"

namespace weir::oip {

struct TracedTensor {
  std::string_view activity;  // "TENSOR_QUEUE_INPUT", "TENSOR_BACKEND_OUTPUT": a literal
  std::string name;
  std::string_view dtype;
  std::string shape{};  // "1,16": of the elements in `data`, which are those of the whole tensor unless `cut`
  std::string data{};   // "1,2.5"; strings in quotes
  std::string whole{};  // the shape of the tensor where it is cut; else empty
};

class TracedTensors {
 public:
  static constexpr size_t kMostTensors = 32;     // of a request and its answers; others are left out
  static constexpr size_t kMostBytes = 4 << 10;  // of a tensor: elements beyond are left out
  static constexpr size_t kLongestName = 256;    // bytes

  // Takes microseconds, however large the tensors are.
  void add(std::string_view activity, const std::vector<msg::Tensor>& tensors);
  const std::vector<TracedTensor>& all() const { return all_; }

 private:
  std::vector<TracedTensor> all_;
};

}  // namespace weir::oip
