#include "msg/tensor.h"

#include <charconv>

namespace weir::msg {
namespace {

struct Row {
  std::string_view name;
  uint8_t size;
};

constexpr std::array<Row, 15> kTypes{{
    {"INVALID", 0},
    {"BOOL", 1},
    {"UINT8", 1},
    {"UINT16", 2},
    {"UINT32", 4},
    {"UINT64", 8},
    {"INT8", 1},
    {"INT16", 2},
    {"INT32", 4},
    {"INT64", 8},
    {"FP16", 2},
    {"FP32", 4},
    {"FP64", 8},
    {"BYTES", 0},
    {"BF16", 2},
}};

// At most seven characters, as one number.
constexpr size_t kLongestName = 7;
constexpr uint64_t number_of(std::string_view name) {
  uint64_t number = 0;
  for (char c : name) number = number << 8 | uint8_t(c);
  return number;
}

constexpr auto kNumbers = [] {
  std::array<uint64_t, kTypes.size()> numbers{};
  for (size_t i = 1; i < kTypes.size(); ++i) numbers[i] = number_of(kTypes[i].name);
  return numbers;
}();

}  // namespace

std::string_view name(DType dtype) { return kTypes.at(size_t(dtype)).name; }
size_t size_of(DType dtype) { return kTypes.at(size_t(dtype)).size; }

DType dtype_from_name(std::string_view name) {
  if (name.empty() || name.size() > kLongestName) return DType::kInvalid;
  const uint64_t number = number_of(name);
  for (size_t i = 1; i < kNumbers.size(); ++i)
    if (kNumbers[i] == number) return kTypes[i].name.size() == name.size() ? DType(i) : DType::kInvalid;
  return DType::kInvalid;
}

std::optional<uint64_t> Shape::elements() const {
  int64_t n = 1;
  bool empty = false;
  for (int64_t d : dims()) {
    if (d < 0) return std::nullopt;
    if (d == 0)
      empty = true;
    else if (__builtin_mul_overflow(n, d, &n))
      return std::nullopt;
  }
  return empty ? 0 : uint64_t(n);
}

std::string Shape::text() const {
  std::array<char, kMaxRank * 21 + 2> buffer;  // 20 characters and a comma each
  char* to = buffer.data();
  *to++ = '[';
  for (int64_t dim : dims()) {
    to = std::to_chars(to, buffer.data() + buffer.size(), dim).ptr;
    *to++ = ',';
  }
  if (rank_ > 0) --to;
  *to++ = ']';
  return {buffer.data(), to};
}

void append_string(std::string& data, std::string_view element) {
  auto n = uint32_t(element.size());
  data.append(reinterpret_cast<const char*>(&n), 4);
  data += element;
}

}  // namespace weir::msg
