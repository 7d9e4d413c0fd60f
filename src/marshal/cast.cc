#include "marshal/cast.h"

#include <cmath>
#include <limits>

#include "base/memory_ledger.h"
#include "msg/half.h"

namespace weir::marshal {
namespace {

using msg::DType;

// A value on its way from one type to another: whole numbers of 64 bits keep all of them.
struct Cell {
  enum class Kind : uint8_t { kSigned, kUnsigned, kReal } kind;
  int64_t i = 0;
  uint64_t u = 0;
  double d = 0;

  std::string text() const {
    return kind == Kind::kSigned ? std::to_string(i) : kind == Kind::kUnsigned ? std::to_string(u) : std::to_string(d);
  }
};

template <class T>
T load(const char* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

Cell signed_cell(int64_t v) { return {Cell::Kind::kSigned, v}; }
Cell unsigned_cell(uint64_t v) { return {Cell::Kind::kUnsigned, 0, v}; }
Cell real_cell(double v) { return {Cell::Kind::kReal, 0, 0, v}; }

Cell take(DType dtype, const char* p) {
  switch (dtype) {
    case DType::kBool: return unsigned_cell(load<uint8_t>(p) != 0);
    case DType::kUint8: return unsigned_cell(load<uint8_t>(p));
    case DType::kUint16: return unsigned_cell(load<uint16_t>(p));
    case DType::kUint32: return unsigned_cell(load<uint32_t>(p));
    case DType::kUint64: return unsigned_cell(load<uint64_t>(p));
    case DType::kInt8: return signed_cell(load<int8_t>(p));
    case DType::kInt16: return signed_cell(load<int16_t>(p));
    case DType::kInt32: return signed_cell(load<int32_t>(p));
    case DType::kInt64: return signed_cell(load<int64_t>(p));
    case DType::kFp16: return real_cell(msg::fp16_to_float(load<uint16_t>(p)));
    case DType::kBf16: return real_cell(msg::bf16_to_float(load<uint16_t>(p)));
    case DType::kFp32: return real_cell(load<float>(p));
    default: return real_cell(load<double>(p));
  }
}

template <class T>
bool store(char* p, T value) {
  std::memcpy(p, &value, sizeof(T));
  return true;
}

template <class T>
bool put_integer(char* p, const Cell& c) {
  constexpr T kLeast = std::numeric_limits<T>::min(), kMost = std::numeric_limits<T>::max();
  if (c.kind == Cell::Kind::kSigned) return std::in_range<T>(c.i) && store(p, T(c.i));
  if (c.kind == Cell::Kind::kUnsigned) return std::in_range<T>(c.u) && store(p, T(c.u));
  // kMost of 64-bit types rounds up to a double beyond them.
  bool fits = c.d == std::trunc(c.d) && c.d >= double(kLeast) && (sizeof(T) == 8 ? c.d < double(kMost) : c.d <= kMost);
  return fits && store(p, T(c.d));
}

double real(const Cell& c) {
  return c.kind == Cell::Kind::kSigned ? double(c.i) : c.kind == Cell::Kind::kUnsigned ? double(c.u) : c.d;
}

bool put(DType dtype, char* p, const Cell& c) {
  double d = real(c);
  auto stays_finite = [&](bool infinite) { return !infinite || !std::isfinite(d); };
  switch (dtype) {
    case DType::kBool: return (d == 0 || d == 1) && store(p, uint8_t(d));
    case DType::kUint8: return put_integer<uint8_t>(p, c);
    case DType::kUint16: return put_integer<uint16_t>(p, c);
    case DType::kUint32: return put_integer<uint32_t>(p, c);
    case DType::kUint64: return put_integer<uint64_t>(p, c);
    case DType::kInt8: return put_integer<int8_t>(p, c);
    case DType::kInt16: return put_integer<int16_t>(p, c);
    case DType::kInt32: return put_integer<int32_t>(p, c);
    case DType::kInt64: return put_integer<int64_t>(p, c);
    case DType::kFp16: {
      uint16_t bits = msg::fp16_from(float(d));
      return stays_finite((bits & 0x7fff) == 0x7c00) && store(p, bits);
    }
    case DType::kBf16: {
      uint16_t bits = msg::bf16_from(float(d));
      return stays_finite((bits & 0x7fff) == 0x7f80) && store(p, bits);
    }
    case DType::kFp32: {
      bool beyond = std::isfinite(d) && std::abs(d) > double(std::numeric_limits<float>::max());
      return !beyond && store(p, float(d));
    }
    default: return store(p, d);
  }
}

}  // namespace

base::Status cast(msg::Tensor& tensor, DType to, base::SlabSource& slabs) {
  if (tensor.dtype == to) return {};
  size_t from_size = msg::size_of(tensor.dtype), to_size = msg::size_of(to);
  if (from_size == 0 || to_size == 0)
    return base::invalid("input '" + tensor.name + "': " + std::string(msg::name(tensor.dtype)) + " cannot become " +
                         std::string(msg::name(to)));
  size_t count = tensor.data.size() / from_size;
  base::Block block(base::take_now(slabs, count * to_size));
  const char* from = tensor.data.view().data();
  auto* at = reinterpret_cast<char*>(block.data());
  for (size_t i = 0; i < count; ++i, from += from_size, at += to_size) {
    Cell cell = take(tensor.dtype, from);
    if (!put(to, at, cell))
      return base::invalid("input '" + tensor.name + "', element " + std::to_string(i) + ": " + cell.text() +
                           " is not a value of " + std::string(msg::name(to)));
  }
  block.resize(count * to_size);
  tensor.data = block.freeze();
  tensor.dtype = to;
  return {};
}

}  // namespace weir::marshal
