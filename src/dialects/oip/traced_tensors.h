// TracedTensors: the tensors of a request that is traced (trace_level TENSORS), as texts of a bounded length, which are
// charged to the memory of what decoders make until the request is over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory_ledger.h"
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

  explicit TracedTensors(base::MemoryLedger* memory = nullptr) {
    if (memory) charge_ = base::MemoryCharge(*memory, base::MemoryKind::kDecoding);
  }
  // Takes microseconds, however large the tensors are. Those for which there is no memory are left out.
  void add(std::string_view activity, const std::vector<msg::Tensor>& tensors);
  const std::vector<TracedTensor>& all() const { return all_; }
  uint64_t left_out() const { return left_out_; }  // for want of memory

 private:
  base::MemoryCharge charge_;
  uint64_t left_out_ = 0;
  std::vector<TracedTensor> all_;
};

}  // namespace weir::oip
