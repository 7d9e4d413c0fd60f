#include "marshal/pb_tensor.h"

#include <bit>
#include <limits>
#include <optional>

#include "base/memory_ledger.h"
#include "marshal/string_block.h"
#include "msg/half.h"

namespace weir::marshal {
namespace {

using base::invalid;
using base::Status;
using msg::DType;

constexpr uint64_t kMostBeside = 64;  // fields of a message that packed floats are looked for in

class CellReader {
 public:
  CellReader(const base::Bytes& message, uint32_t field, base::SlabSource& slabs, msg::Tensor& tensor)
      : message_(message), field_(field), slabs_(slabs), tensor_(tensor), single_(cell_type(tensor.dtype)) {}

  Status read(std::string_view fields) {
    if (auto packed = packed_alone(fields, field_, tensor_.dtype)) {
      tensor_.data = message_.slice(*packed);  // its size is checked against the shape with all others
      return {};
    }
    auto elements = tensor_.shape.elements();
    if (!elements) return invalid(where() + "bad shape " + tensor_.shape.text());
    // Every element takes a byte at least, so this cannot ask for more than a few times the message.
    if (*elements > fields.size()) return miscounted("fewer");
    count_ = *elements;
    bool strings = tensor_.dtype == DType::kBytes;
    if (strings) {
      // An element's tag and length take two bytes at least; here its length takes four.
      strings_.emplace(slabs_, fields.size() + 2 * count_);
    } else {
      size_t size = count_ * msg::size_of(tensor_.dtype);
      block_ = base::Block(base::take_now(slabs_, size));
    }
    PbReader r(fields);
    while (r.next()) {
      if (r.field() != field_) continue;
      Status status = strings ? string(r) : cells(r);
      if (!status.ok()) return status;
    }
    if (!r.ok()) return malformed();
    if (index_ != count_) return miscounted("fewer");
    tensor_.data = strings ? strings_->freeze() : block_.freeze();
    return {};
  }

 private:
  Status string(const PbReader& r) {
    if (r.type() != PbType::kBytes) return malformed();
    if (index_++ == count_) return miscounted("more");
    strings_->append(r.bytes());
    return {};
  }

  Status cells(const PbReader& r) {
    if (r.type() == single_) return cell(r.number());
    if (r.type() != PbType::kBytes) return malformed();
    std::string_view packed = r.bytes();
    size_t width = single_ == PbType::kFixed32 ? 4 : 8;
    while (!packed.empty()) {
      uint64_t bits = 0;
      if (single_ == PbType::kVarint) {
        if (!take_varint(packed, bits)) return malformed();
      } else {
        if (packed.size() < width) return malformed();
        std::memcpy(&bits, packed.data(), width);
        packed.remove_prefix(width);
      }
      if (Status status = cell(bits); !status.ok()) return status;
    }
    return {};
  }

  Status cell(uint64_t bits) {
    if (index_ == count_) return miscounted("more");
    switch (tensor_.dtype) {
      case DType::kBool: return put(uint8_t(bits != 0));
      case DType::kInt8: return narrow<int8_t>(int32_t(uint32_t(bits)));
      case DType::kInt16: return narrow<int16_t>(int32_t(uint32_t(bits)));
      case DType::kInt32: return put(int32_t(uint32_t(bits)));
      case DType::kUint8: return narrow<uint8_t>(uint32_t(bits));
      case DType::kUint16: return narrow<uint16_t>(uint32_t(bits));
      case DType::kUint32: return put(uint32_t(bits));
      case DType::kFp16: return put(msg::fp16_from(std::bit_cast<float>(uint32_t(bits))));
      case DType::kBf16: return put(msg::bf16_from(std::bit_cast<float>(uint32_t(bits))));
      case DType::kFp32: return put(uint32_t(bits));
      default: return put(bits);  // the 64-bit types
    }
  }

  template <class T, class Wide>
  Status narrow(Wide value) {
    if (value < std::numeric_limits<T>::min() || value > std::numeric_limits<T>::max())
      return invalid("input '" + tensor_.name + "', element " + std::to_string(index_) + ": " + std::to_string(value) +
                     " is not a value of " + std::string(msg::name(tensor_.dtype)));
    return put(T(value));
  }

  template <class T>
  Status put(T value) {
    std::memcpy(block_.data() + index_++ * sizeof(T), &value, sizeof(T));
    block_.resize(index_ * sizeof(T));
    return {};
  }

  std::string where() const { return "input '" + tensor_.name + "': "; }
  Status malformed() const { return invalid(where() + "malformed protobuf in its contents"); }
  Status miscounted(std::string_view how) const {
    return invalid(where() + "the contents have " + std::string(how) + " elements than its shape " +
                   tensor_.shape.text());
  }

  const base::Bytes& message_;
  uint32_t field_;
  base::SlabSource& slabs_;
  msg::Tensor& tensor_;
  PbType single_;
  uint64_t count_ = 0, index_ = 0;
  base::Block block_;
  std::optional<StringBlock> strings_;
};

template <class T, class F>
void for_each_cell(std::string_view data, F each) {
  for (; data.size() >= sizeof(T); data.remove_prefix(sizeof(T))) {
    T value;
    std::memcpy(&value, data.data(), sizeof(T));
    each(value);
  }
}

template <class T>
void put_varints(std::string& out, std::string_view data) {
  size_t size = 0;  // negative int32s are ten bytes long, as in C++: sign-extended
  for_each_cell<T>(data, [&](T v) { size += varint_size(uint64_t(int64_t(v))); });
  put_varint(out, size);
  out.reserve(out.size() + size);
  for_each_cell<T>(data, [&](T v) { put_varint(out, uint64_t(int64_t(v))); });
}

template <class F>
void put_halves(std::string& out, std::string_view data, F to_float) {
  put_varint(out, data.size() * 2);
  for_each_cell<uint16_t>(data, [&](uint16_t v) {
    float f = to_float(v);
    out.append(reinterpret_cast<const char*>(&f), 4);
  });
}

}  // namespace

uint32_t contents_field(DType dtype) {
  switch (dtype) {
    case DType::kBool: return 1;
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32: return 2;
    case DType::kInt64: return 3;
    case DType::kUint8:
    case DType::kUint16:
    case DType::kUint32: return 4;
    case DType::kUint64: return 5;
    case DType::kFp16:
    case DType::kBf16:
    case DType::kFp32: return 6;
    case DType::kFp64: return 7;
    default: return 8;
  }
}

PbType cell_type(DType dtype) {
  switch (dtype) {
    case DType::kFp16:
    case DType::kBf16:
    case DType::kFp32: return PbType::kFixed32;
    case DType::kFp64: return PbType::kFixed64;
    case DType::kBytes: return PbType::kBytes;
    default: return PbType::kVarint;
  }
}

std::optional<std::string_view> packed_alone(std::string_view fields, uint32_t field, DType dtype) {
  if (dtype != DType::kFp32 && dtype != DType::kFp64) return std::nullopt;
  std::optional<std::string_view> packed;
  PbFields beside(kMostBeside);
  PbCountedReader r(fields, beside);
  while (r.next()) {
    if (r.field() != field) continue;
    if (r.type() != PbType::kBytes || packed) return std::nullopt;
    packed = r.bytes();
  }
  return r.ok() ? packed : std::nullopt;
}

Status read_cells(const base::Bytes& message, std::string_view fields, uint32_t field, base::SlabSource& slabs,
                  msg::Tensor& tensor) {
  return CellReader(message, field, slabs, tensor).read(fields);
}

void put_cells(std::string& out, uint32_t field, const msg::Tensor& tensor) {
  std::string_view data = tensor.data.view();
  if (tensor.dtype == DType::kBytes) {
    msg::for_each_string(data, [&](std::string_view element) { put_bytes(out, field, element); });
    return;
  }
  if (data.empty()) return;
  put_tag(out, field, PbType::kBytes);
  switch (tensor.dtype) {
    case DType::kBool:
    case DType::kUint8: return put_varints<uint8_t>(out, data);
    case DType::kInt8: return put_varints<int8_t>(out, data);
    case DType::kUint16: return put_varints<uint16_t>(out, data);
    case DType::kInt16: return put_varints<int16_t>(out, data);
    case DType::kUint32: return put_varints<uint32_t>(out, data);
    case DType::kInt32: return put_varints<int32_t>(out, data);
    case DType::kUint64: return put_varints<uint64_t>(out, data);
    case DType::kInt64: return put_varints<int64_t>(out, data);
    case DType::kFp16: return put_halves(out, data, msg::fp16_to_float);
    case DType::kBf16: return put_halves(out, data, msg::bf16_to_float);
    default: put_varint(out, data.size()), out += data;
  }
}

}  // namespace weir::marshal
