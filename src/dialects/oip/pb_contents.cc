// read_contents() of pb_infer.h: InferTensorContents has one repeated field per family of types.
//
//   1 bool  2 int32 (INT8, INT16, INT32)  3 int64  4 uint32 (UINT8, UINT16, UINT32)  5 uint64  6 float  7 double  8
//   bytes
// FP16 and BF16 have no field; they are taken from the floats, rounded.
#include "dialects/oip/pb_infer.h"
#include "marshal/pb_tensor.h"

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

constexpr std::string_view kFields[] = {"?",
                                        "bool_contents",
                                        "int_contents",
                                        "int64_contents",
                                        "uint_contents",
                                        "uint64_contents",
                                        "fp32_contents",
                                        "fp64_contents",
                                        "bytes_contents"};

Status misplaced(const msg::Tensor& tensor, uint32_t wanted, const PbReader& r) {
  return invalid("input '" + tensor.name + "': " + std::string(msg::name(tensor.dtype)) + " data belongs in " +
                 std::string(kFields[wanted]) + ", but the contents have " +
                 std::string(kFields[r.field() <= 8 ? r.field() : 0]));
}

}  // namespace

Status read_contents(const base::Bytes& message, std::string_view contents, base::SlabSource& slabs,
                     msg::Tensor& tensor) {
  uint32_t field = field_of(tensor.dtype);
  PbType single = marshal::cell_type(tensor.dtype);
  PbReader r(contents);
  while (r.next())
    if (r.field() != field || (r.type() != PbType::kBytes && r.type() != single)) return misplaced(tensor, field, r);
  return marshal::read_cells(message, contents, field, slabs, tensor);
}

}  // namespace weir::oip
