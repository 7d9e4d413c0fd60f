// Tensor: a name, a type, a shape and the bytes. Little-endian, row-major, no padding.
//
// BYTES tensors hold each element as a 4-byte little-endian length and that many bytes, as the Open Inference
// Protocol's binary form does. BOOL is one byte, 0 or 1. FP16 and BF16 are their 2-byte patterns.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace weir::msg {

enum class DType : uint8_t {
  kInvalid,
  kBool,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kFp16,
  kFp32,
  kFp64,
  kBytes,
  kBf16,
};

std::string_view name(DType dtype);            // "FP32", as the Open Inference Protocol spells it
DType dtype_from_name(std::string_view name);  // kInvalid for anything else
size_t size_of(DType dtype);                   // bytes per element; 0 for kBytes and kInvalid

// Up to 16 dimensions. In a Tensor all are >= 0; in a TensorSpec -1 stands for any size.
class Shape {
 public:
  static constexpr size_t kMaxRank = 16;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) {
    for (int64_t d : dims) push(d);
  }
  // False, and nothing changes, when the shape is full.
  bool push(int64_t dim) {
    if (rank_ == kMaxRank) return false;
    dims_[rank_++] = dim;
    return true;
  }
  size_t rank() const { return rank_; }
  int64_t operator[](size_t i) const { return dims_[i]; }
  int64_t& operator[](size_t i) { return dims_[i]; }
  std::span<const int64_t> dims() const& { return {dims_.data(), rank_}; }
  std::span<const int64_t> dims() const&& = delete;  // a range-for over a temporary's dims would dangle
  // Product of the dimensions (1 for a scalar); nothing if one is negative or the product passes 2^63 - 1.
  std::optional<uint64_t> elements() const;
  std::string text() const;  // "[1,3,224]"
  friend bool operator==(const Shape& a, const Shape& b) {
    return std::equal(a.dims().begin(), a.dims().end(), b.dims().begin(), b.dims().end());
  }

 private:
  uint8_t rank_ = 0;
  std::array<int64_t, kMaxRank> dims_{};
};

struct Tensor {
  std::string name;
  DType dtype = DType::kInvalid;
  Shape shape;
  base::Bytes data;
};

// Calls `each(std::string_view)` for every element of a BYTES tensor's data. False if the lengths do not add up.
template <class F>
bool for_each_string(std::string_view data, F&& each) {
  while (!data.empty()) {
    if (data.size() < 4) return false;
    uint32_t n;
    std::memcpy(&n, data.data(), 4);
    if (data.size() - 4 < n) return false;
    each(data.substr(4, n));
    data.remove_prefix(4 + size_t(n));
  }
  return true;
}
void append_string(std::string& data, std::string_view element);

}  // namespace weir::msg
