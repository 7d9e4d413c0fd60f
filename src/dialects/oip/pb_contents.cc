// read_contents() of pb_infer.h: InferTensorContents has one repeated field per family of types.
//
//   1 bool  2 int32 (INT8, INT16, INT32)  3 int64  4 uint32 (UINT8, UINT16, UINT32)  5 uint64  6 float  7 double  8
//   bytes
// FP16 and BF16 have no field: the protocol wants them raw.
#include "dialects/oip/pb_infer.h"
#include "marshal/pb_tensor.h"

namespace weir::oip {
namespace {

using base::invalid;
using base::Status;
using marshal::PbReader;
using marshal::PbType;

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
  if (tensor.dtype == msg::DType::kFp16 || tensor.dtype == msg::DType::kBf16)
    return invalid("input '" + tensor.name + "': there are no typed contents for " +
                   std::string(msg::name(tensor.dtype)) + ", its data belongs in raw_input_contents");
  uint32_t field = marshal::contents_field(tensor.dtype);
  PbType single = marshal::cell_type(tensor.dtype);
  PbReader r(contents);
  while (r.next())
    if (r.field() != field || (r.type() != PbType::kBytes && r.type() != single)) return misplaced(tensor, field, r);
  return marshal::read_cells(message, contents, field, slabs, tensor);
}

}  // namespace weir::oip
