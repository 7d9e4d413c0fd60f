// classify() of infer_options.h.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "dialects/oip/infer_options.h"
#include "msg/half.h"

namespace weir::oip {
namespace {

using base::Status;
using msg::DType;

// `Score` is int64_t, uint64_t or double, which hold every value of the output's type.
template <class Score>
struct Scored {
  Score score;
  uint32_t index;
};

// Numbers go before what is none, larger ones before smaller, and of equals the first.
template <class Score>
bool better(const Scored<Score>& a, const Scored<Score>& b) {
  if constexpr (std::is_floating_point_v<Score>) {
    const bool a_nan = std::isnan(a.score), b_nan = std::isnan(b.score);
    if (a_nan || b_nan) return a_nan == b_nan ? a.index < b.index : b_nan;
  }
  if (a.score != b.score) return a.score > b.score;
  return a.index < b.index;
}

// The best `best.size()` of the cells, in order. `best` is a heap meanwhile, with the least of them in front, so that
// most cells cost one comparison.
template <class Cell, class Score>
void select(std::string_view row, Score (*score_of)(Cell), std::vector<Scored<Score>>& best) {
  const char* p = row.data();
  auto next = [&](uint32_t index) {
    Cell cell;
    std::memcpy(&cell, p, sizeof cell);
    p += sizeof cell;
    return Scored<Score>{score_of(cell), index};
  };
  const auto cells = uint32_t(row.size() / sizeof(Cell));
  uint32_t index = 0;
  for (; index < best.size(); ++index) best[index] = next(index);
  std::make_heap(best.begin(), best.end(), better<Score>);
  for (; index < cells; ++index) {
    const Scored<Score> one = next(index);
    if (one.score <= best.front().score || !better(one, best.front())) continue;
    std::pop_heap(best.begin(), best.end(), better<Score>);
    best.back() = one;
    std::push_heap(best.begin(), best.end(), better<Score>);
  }
  std::sort_heap(best.begin(), best.end(), better<Score>);
}

// "0.973512:4:four" or "12:4:four", after its length.
template <class Score>
void append_line(std::string& out, const Scored<Score>& one, const std::vector<std::string>& labels) {
  constexpr size_t kScore = 320, kIndex = 16;  // the largest double takes 317, an index 10
  std::array<char, kScore + 1 + kIndex> text;
  char* const last = text.data() + text.size();
  char* end;
  if constexpr (std::is_floating_point_v<Score>)
    end = std::to_chars(text.data(), text.data() + kScore, one.score, std::chars_format::fixed, 6).ptr;
  else
    end = std::to_chars(text.data(), text.data() + kScore, one.score).ptr;
  *end++ = ':';
  end = std::to_chars(end, last, one.index).ptr;
  const std::string_view head(text.data(), size_t(end - text.data()));
  if (one.index >= labels.size()) return msg::append_string(out, head);
  std::string line(head);
  line.append(":").append(labels[one.index]);
  msg::append_string(out, line);
}

struct Classified {
  std::string_view cells;
  size_t rows;
  uint32_t k;  // of each row
  const std::vector<std::string>& labels;
};

template <class Score, class Cell>
std::string lines_of(const Classified& what, Score (*score_of)(Cell)) {
  std::string out;
  std::vector<Scored<Score>> best(what.k);
  const size_t width = what.cells.size() / what.rows;
  for (size_t row = 0; row < what.rows; ++row) {
    select(what.cells.substr(row * width, width), score_of, best);
    for (const auto& one : best) append_line(out, one, what.labels);
  }
  return out;
}

template <class Score, class Cell>
Score widened(Cell cell) {
  return cell;
}
double from_fp16(uint16_t bits) { return msg::fp16_to_float(bits); }
double from_bf16(uint16_t bits) { return msg::bf16_to_float(bits); }

std::string lines_of(DType dtype, const Classified& what) {
  switch (dtype) {
    case DType::kUint8: return lines_of<uint64_t, uint8_t>(what, widened);
    case DType::kUint16: return lines_of<uint64_t, uint16_t>(what, widened);
    case DType::kUint32: return lines_of<uint64_t, uint32_t>(what, widened);
    case DType::kUint64: return lines_of<uint64_t, uint64_t>(what, widened);
    case DType::kInt8: return lines_of<int64_t, int8_t>(what, widened);
    case DType::kInt16: return lines_of<int64_t, int16_t>(what, widened);
    case DType::kInt32: return lines_of<int64_t, int32_t>(what, widened);
    case DType::kInt64: return lines_of<int64_t, int64_t>(what, widened);
    case DType::kFp16: return lines_of<double, uint16_t>(what, from_fp16);
    case DType::kBf16: return lines_of<double, uint16_t>(what, from_bf16);
    case DType::kFp32: return lines_of<double, float>(what, widened);
    case DType::kFp64: return lines_of<double, double>(what, widened);
    default: return {};
  }
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
  std::string out = k > 0 ? lines_of(tensor.dtype, {tensor.data.view(), count, k, labels}) : std::string();
  tensor.dtype = DType::kBytes;
  tensor.shape = batch ? msg::Shape{int64_t(count), int64_t(k)} : msg::Shape{int64_t(k)};
  tensor.data = base::Bytes::adopt(std::move(out));
  return {};
}

}  // namespace weir::oip
