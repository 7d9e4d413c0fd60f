// classify() of wishes.h.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "dialects/oip/wishes.h"
#include "marshal/half.h"

namespace weir::oip {
namespace {

using base::Status;
using msg::DType;

// Cells of any numeric type as doubles: exact enough to rank all but neighbouring 64-bit integers.
double cell(DType dtype, const char* p) {
  auto as = [p](auto value) {
    std::memcpy(&value, p, sizeof value);
    return value;
  };
  switch (dtype) {
    case DType::kUint8: return as(uint8_t());
    case DType::kUint16: return as(uint16_t());
    case DType::kUint32: return as(uint32_t());
    case DType::kUint64: return double(as(uint64_t()));
    case DType::kInt8: return as(int8_t());
    case DType::kInt16: return as(int16_t());
    case DType::kInt32: return as(int32_t());
    case DType::kInt64: return double(as(int64_t()));
    case DType::kFp16: return marshal::fp16_to_float(as(uint16_t()));
    case DType::kBf16: return marshal::bf16_to_float(as(uint16_t()));
    case DType::kFp32: return as(float());
    case DType::kFp64: return as(double());
    default: return 0;
  }
}

// "0.973512:4:four"
std::string line(double score, size_t index, const std::vector<std::string>& labels) {
  std::array<char, 400> text;  // %f of the largest double takes 317
  int n = std::snprintf(text.data(), text.size(), "%f:%zu", score, index);
  std::string out(text.data(), size_t(n));
  if (index < labels.size()) out += ":" + labels[index];
  return out;
}

void top(const std::vector<double>& scores, uint32_t k, const std::vector<std::string>& labels, std::string& out) {
  std::vector<uint32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0u);
  std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](uint32_t a, uint32_t b) {
    bool a_nan = std::isnan(scores[a]), b_nan = std::isnan(scores[b]);
    if (a_nan != b_nan) return b_nan;
    if (!a_nan && scores[a] != scores[b]) return scores[a] > scores[b];
    return a < b;
  });
  for (uint32_t i = 0; i < k; ++i) msg::append_string(out, line(scores[order[i]], order[i], labels));
}

}  // namespace

Status classify(msg::Tensor& tensor, uint32_t k, const std::vector<std::string>& labels, Rows rows) {
  size_t width = msg::size_of(tensor.dtype);
  if (width == 0 || tensor.dtype == DType::kBool)
    return base::invalid("output '" + tensor.name + "' is " + std::string(msg::name(tensor.dtype)) +
                         ": only numbers can be classified");
  bool batch = rows == Rows::kBatch && tensor.shape.rank() > 0;
  auto count = batch ? size_t(tensor.shape[0]) : 1;
  size_t cells = tensor.data.size() / width;
  size_t classes = count == 0 ? 0 : cells / count;
  k = uint32_t(std::min<size_t>(k, classes));
  std::string out;
  std::vector<double> scores(classes);
  const char* p = tensor.data.view().data();
  for (size_t row = 0; row < count; ++row) {
    for (double& score : scores) score = cell(tensor.dtype, p), p += width;
    top(scores, k, labels, out);
  }
  tensor.dtype = DType::kBytes;
  tensor.shape = batch ? msg::Shape{int64_t(count), int64_t(k)} : msg::Shape{int64_t(k)};
  tensor.data = base::Bytes::adopt(std::move(out));
  return {};
}

}  // namespace weir::oip
