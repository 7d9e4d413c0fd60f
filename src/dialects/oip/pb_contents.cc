// read_contents() of pb_infer.h: InferTensorContents has one repeated field per family of types.
//
//   1 bool  2 int32 (INT8, INT16, INT32)  3 int64  4 uint32 (UINT8, UINT16, UINT32)  5 uint64  6 float  7 double  8
//   bytes
// FP16 and BF16 have no field; they are taken from the floats, rounded.
#include <limits>

#include "dialects/oip/pb_infer.h"
#include "marshal/half.h"
#include "marshal/pb_wire.h"

namespace weir::oip {
namespace {

using base::invalid;
using base::Status;
using marshal::PbReader;
using marshal::PbType;
using msg::DType;

uint32_t field_of(DType dtype) {
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

class ContentsReader {
 public:
  ContentsReader(const base::Bytes& message, base::SlabSource& slabs, msg::Tensor& tensor)
      : message_(message), slabs_(slabs), tensor_(tensor), field_(field_of(tensor.dtype)) {}

  Status read(std::string_view contents) {
    if (alias(contents)) return {};
    auto elements = tensor_.shape.elements();
    if (!elements) return invalid(where() + "bad shape " + tensor_.shape.text());
    // Every element takes a byte at least, so this cannot ask for more than a few times the message.
    if (*elements > contents.size()) return miscounted("fewer");
    count_ = *elements;
    bool strings = tensor_.dtype == DType::kBytes;
    if (!strings) {
      size_t size = count_ * msg::size_of(tensor_.dtype);
      base::Slab* slab = slabs_.take(size);
      block_ = base::Block(slab ? slab : base::heap_slab(size));
    }
    PbReader r(contents);
    while (r.next()) {
      if (r.field() != field_) return misplaced(r);
      Status status = strings ? string(r) : cells(r);
      if (!status.ok()) return status;
    }
    if (!r.ok()) return invalid(where() + "malformed protobuf in its contents");
    if (index_ != count_) return miscounted("fewer");
    tensor_.data = strings ? base::Bytes::adopt(std::move(strings_)) : block_.freeze();
    return {};
  }

 private:
  // Packed floats of the very type lie in the message as the tensor wants them.
  bool alias(std::string_view contents) {
    if (tensor_.dtype != DType::kFp32 && tensor_.dtype != DType::kFp64) return false;
    PbReader r(contents);
    if (!r.next() || !r.is(field_, PbType::kBytes) || r.encoded_size() != contents.size()) return false;
    tensor_.data = message_.slice(r.bytes());  // its size is checked against the shape with all others
    return true;
  }

  Status string(const PbReader& r) {
    if (r.type() != PbType::kBytes) return misplaced(r);
    if (index_++ == count_) return miscounted("more");
    msg::append_string(strings_, r.bytes());
    return {};
  }

  Status cells(const PbReader& r) {
    bool fixed = field_ >= 6;
    PbType single = field_ == 6 ? PbType::kFixed32 : field_ == 7 ? PbType::kFixed64 : PbType::kVarint;
    if (r.type() == single) return cell(r.number());
    if (r.type() != PbType::kBytes) return misplaced(r);
    std::string_view packed = r.bytes();
    size_t width = field_ == 6 ? 4 : 8;
    while (!packed.empty()) {
      uint64_t bits = 0;
      if (!fixed) {
        if (!marshal::take_varint(packed, bits)) return invalid(where() + "malformed protobuf in its contents");
      } else {
        if (packed.size() < width) return invalid(where() + "malformed protobuf in its contents");
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
      case DType::kFp16: return put(marshal::fp16_from(std::bit_cast<float>(uint32_t(bits))));
      case DType::kBf16: return put(marshal::bf16_from(std::bit_cast<float>(uint32_t(bits))));
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
  Status misplaced(const PbReader& r) const {
    static constexpr std::string_view kFields[] = {"?",
                                                   "bool_contents",
                                                   "int_contents",
                                                   "int64_contents",
                                                   "uint_contents",
                                                   "uint64_contents",
                                                   "fp32_contents",
                                                   "fp64_contents",
                                                   "bytes_contents"};
    return invalid(where() + std::string(msg::name(tensor_.dtype)) + " data belongs in " +
                   std::string(kFields[field_]) + ", but the contents have " +
                   std::string(kFields[r.field() <= 8 ? r.field() : 0]));
  }
  Status miscounted(std::string_view how) const {
    return invalid(where() + "the contents have " + std::string(how) + " elements than its shape " +
                   tensor_.shape.text());
  }

  const base::Bytes& message_;
  base::SlabSource& slabs_;
  msg::Tensor& tensor_;
  uint32_t field_;
  uint64_t count_ = 0, index_ = 0;
  base::Block block_;
  std::string strings_;
};

}  // namespace

Status read_contents(const base::Bytes& message, std::string_view contents, base::SlabSource& slabs,
                     msg::Tensor& tensor) {
  return ContentsReader(message, slabs, tensor).read(contents);
}

}  // namespace weir::oip
