// ModelInferRequest and ModelInferResponse by hand (proto/inference.proto): no message objects, no copy of raw tensors.
//
//   ModelInferRequest:  1 model_name  2 model_version  3 id  4 parameters{1 key 2 value}  5 inputs  6 outputs
//                       7 raw_input_contents
//   InferInputTensor:   1 name  2 datatype  3 shape (packed or not)  4 parameters  5 contents
//   ModelInferResponse: 1 model_name  2 model_version  3 id  4 parameters  5 outputs  6 raw_output_contents
// Unlike libprotobuf this refuses a message at the first excess: more than 256 inputs or outputs, rank above 16, more
// than 64 KiB of unknown fields; so a small message never becomes a large one in memory.
#pragma once

#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "dialects/oip/infer_options.h"
#include "dialects/oip/reply.h"
#include "msg/call.h"

namespace weir::oip {

// Fills the Call's model, version, id, inputs, outputs and parameters. Raw and packed FP32, FP64 data alias `message`;
// other typed contents are converted into a slab, once. Errors: INVALID_ARGUMENT.
base::Status read_infer(const base::Bytes& message, base::SlabSource& slabs, msg::Call& call, InferOptions& options);

// Whether read_infer() has more than kLongRequest of typed contents before it; raw ones it only points at.
bool takes_long(std::string_view message);
// The model, version, id and parameters alone, before all is read: it converts nothing. Errors: INVALID_ARGUMENT.
base::Status read_head(const base::Bytes& message, msg::Call& call, InferOptions& options);

// The typed `contents` of one input into tensor.data. `contents` lies inside `message`.
base::Status read_contents(const base::Bytes& message, std::string_view contents, base::SlabSource& slabs,
                           msg::Tensor& tensor);

// kBare: a ModelInferResponse. kStream: the same as infer_response of a ModelStreamInferResponse.
enum class Envelope : uint8_t { kBare, kStream };

// The message in pieces: large tensors are pieces of their own, small ones are copied into the text between them.
std::vector<base::Bytes> write_infer(const InferReply& reply, Envelope envelope);
// A ModelStreamInferResponse with error_message, and enough of infer_response to tell which request it was.
base::Bytes write_stream_error(std::string_view model, std::string_view version, std::string_view id,
                               const msg::Parameters& parameters, std::string_view error);

}  // namespace weir::oip
