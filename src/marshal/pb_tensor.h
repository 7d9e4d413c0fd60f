// Tensor elements as a repeated protobuf field, both ways, without message objects.
//
//   BOOL, INT*, UINT*   varints (bool, int32, int64, uint32, uint64), packed or one field each
//   FP16, BF16, FP32    floats, packed or not; the 16-bit ones are rounded
//   FP64                doubles
//   BYTES               one length-delimited field each
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/status.h"
#include "marshal/pb_wire.h"
#include "msg/tensor.h"

namespace weir::marshal {

// The field of InferTensorContents (Open Inference Protocol) that holds elements of the type.
uint32_t contents_field(msg::DType dtype);

// The wire type of a lone (unpacked) element of the type.
PbType cell_type(msg::DType dtype);

// The elements of `field` where they lie in `fields` as the tensor wants them: floats of the very type, packed, in one
// piece, and few fields beside them (a name, a shape). Empty where they have to be converted.
std::optional<std::string_view> packed_alone(std::string_view fields, uint32_t field, msg::DType dtype);

// All occurrences of `field` in `fields` become tensor.data; name, dtype and shape are set already, other fields are
// passed over. `fields` lies inside `message`. What packed_alone() finds aliases the message, everything else is
// converted into a slab, once. Never allocates more than a few times the encoded size. Errors: INVALID_ARGUMENT naming
// the tensor and the element.
base::Status read_cells(const base::Bytes& message, std::string_view fields, uint32_t field, base::SlabSource& slabs,
                        msg::Tensor& tensor);

// Appends the elements as `field`, packed (BYTES: one field each). FP32 and FP64 are best sent as the tensor's own
// bytes: packed, they are the same. The data must have been checked (check_data).
void put_cells(std::string& out, uint32_t field, const msg::Tensor& tensor);

}  // namespace weir::marshal
