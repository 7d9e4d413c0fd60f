// classify() of infer_options.h.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>

#include "dialects/oip/infer_options.h"
#include "msg/half.h"

namespace weir::oip {
namespace {

using base::Status;
using msg::DType;

struct Scored {
  double score;  // exact enough to rank all but neighbouring 64-bit integers
  uint32_t index;
};

// Numbers go before what is none, larger ones before smaller, and of equals the first.
bool better(const Scored& a, const Scored& b) {
  const bool a_nan = std::isnan(a.score), b_nan = std::isnan(b.score);
  if (a_nan != b_nan) return b_nan;
  if (!a_nan && a.score != b.score) return a.score > b.score;
  return a.index < b.index;
}

// The best `best.size()` of the cells, in order. `best` is a heap meanwhile, with the least of them in front, so that
// most cells cost one comparison.
template <class Cell>
void select(std::string_view row, double (*score_of)(Cell), std::vector<Scored>& best) {
  const char* p = row.data();
  auto next = [&](uint32_t index) {
    Cell cell;
    std::memcpy(&cell, p, sizeof cell);
    p += sizeof cell;
    return Scored{score_of(cell), index};
  };
  const auto cells = uint32_t(row.size() / sizeof(Cell));
  uint32_t index = 0;
  for (; index < best.size(); ++index) best[index] = next(index);
  std::make_heap(best.begin(), best.end(), better);
  for (; index < cells; ++index) {
    const Scored one = next(index);
    if (one.score <= best.front().score || !better(one, best.front())) continue;
    std::pop_heap(best.begin(), best.end(), better);
    best.back() = one;
    std::push_heap(best.begin(), best.end(), better);
  }
  std::sort_heap(best.begin(), best.end(), better);
}

template <class Number>
double plain(Number number) {
  return double(number);
}
double from_fp16(uint16_t bits) { return msg::fp16_to_float(bits); }
double from_bf16(uint16_t bits) { return msg::bf16_to_float(bits); }

void select(DType dtype, std::string_view row, std::vector<Scored>& best) {
  switch (dtype) {
    case DType::kUint8: return select<uint8_t>(row, plain, best);
    case DType::kUint16: return select<uint16_t>(row, plain, best);
    case DType::kUint32: return select<uint32_t>(row, plain, best);
    case DType::kUint64: return select<uint64_t>(row, plain, best);
    case DType::kInt8: return select<int8_t>(row, plain, best);
    case DType::kInt16: return select<int16_t>(row, plain, best);
    case DType::kInt32: return select<int32_t>(row, plain, best);
    case DType::kInt64: return select<int64_t>(row, plain, best);
    case DType::kFp16: return select<uint16_t>(row, from_fp16, best);
    case DType::kBf16: return select<uint16_t>(row, from_bf16, best);
    case DType::kFp32: return select<float>(row, plain, best);
    case DType::kFp64: return select<double>(row, plain, best);
    default: return;
  }
}

// "0.973512:4:four", after its length.
void append_line(std::string& out, const Scored& one, const std::vector<std::string>& labels) {
  std::array<char, 400> text;  // the largest double takes 317
  char* const last = text.data() + text.size();
  char* end = std::to_chars(text.data(), last, one.score, std::chars_format::fixed, 6).ptr;
  *end++ = ':';
  end = std::to_chars(end, last, one.index).ptr;
  const std::string_view head(text.data(), size_t(end - text.data()));
  if (one.index >= labels.size()) return msg::append_string(out, head);
  std::string line(head);
  line.append(":").append(labels[one.index]);
  msg::append_string(out, line);
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
  if (uint64_t(count) * k > kMaxClassLines)
    return base::invalid("output '" + tensor.name + "': " + std::to_string(count) + " rows with " + std::to_string(k) +
                         " classes each are more than the " + std::to_string(kMaxClassLines) +
                         " lines that one classification may have");
  std::string out;
  std::vector<Scored> best(k);
  for (size_t row = 0; row < count && k > 0; ++row) {
    select(tensor.dtype, tensor.data.view().substr(row * classes * width, classes * width), best);
    for (const Scored& one : best) append_line(out, one, labels);
  }
  tensor.dtype = DType::kBytes;
  tensor.shape = batch ? msg::Shape{int64_t(count), int64_t(k)} : msg::Shape{int64_t(k)};
  tensor.data = base::Bytes::adopt(std::move(out));
  return {};
}

}  // namespace weir::oip
