// The messages of the Open Inference Protocol as a client of it has them (proto/inference.proto), by hand: tensors of a
// request are pieces of their own, tensors of an answer alias the message.
//
//   ModelInferRequest:  1 model_name  2 model_version  3 id  4 parameters{1 key 2 value}  5 inputs  6 outputs
//                       7 raw_input_contents
//   ModelInferResponse: 1 model_name  2 model_version  3 id  4 parameters  5 outputs{1 name 2 datatype 3 shape
//                       4 parameters 5 contents}  6 raw_output_contents
//   ModelStreamInferResponse: 1 error_message  2 infer_response
//   ModelMetadataResponse: 3 platform  4 inputs{1 name 2 datatype 3 shape}  5 outputs
//   ModelConfigResponse: 1 config{4 max_batch_size  5 input{1 name 8 optional}  19 model_transaction_policy{1
//   decoupled}}
// Pure; any thread. What an origin sends is a stranger's: a message is refused at its first excess.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::forward {

inline constexpr size_t kMostTensors = 256;  // of an answer, or of a signature's inputs or outputs
inline constexpr size_t kMostParameters = 256;

// The request of a Call, behind room for gRPC's prefix, which the first piece begins with. Tensors up to 4 KiB are
// copied into the text between the others, which share their slabs.
enum class Ending : uint8_t { kAsItIs, kTold };  // kTold: a stream's last answer is marked as such, empty or not
// `mark`: a parameter that is true, beside the Call's own; empty: none.
std::vector<base::Bytes> write_request(const msg::Call& call, std::string_view model, std::string_view version,
                                       Ending ending, std::string_view mark = {});

// A message of two strings, 1 and 2, framed as well: ModelReadyRequest, ModelMetadataRequest, ModelConfigRequest.
base::Bytes write_name(std::string_view model, std::string_view version);

// Typed contents of one answer that are converted on a shard, which takes some 3 ns a byte. Packed FP32 and FP64 in one
// piece are not: they lie there as a tensor has them.
inline constexpr size_t kMostTyped = size_t(4) << 20;

// A ModelInferResponse. Tensors alias `message`; typed contents are converted into slabs, kMostTyped bytes of them.
// Errors: INTERNAL, saying what is wrong with it.
base::Result<msg::Outputs> read_answer(const base::Bytes& message, base::SlabSource& slabs);
// The same of a ModelStreamInferResponse. Errors: UNKNOWN with its error_message, too.
base::Result<msg::Outputs> read_streamed(const base::Bytes& message, base::SlabSource& slabs);
// Tensors that are not those that `spec` declares, by type, shape or rows, or whose bytes do not fit their shape.
// `rows`: how many there are to be; 0: any number. Errors: INTERNAL.
base::Status check_answer(const msg::ModelSpec& spec, const std::vector<msg::Tensor>& tensors, uint32_t rows);

base::Result<bool> read_ready(std::string_view message);
// Platform, inputs and outputs, with their batch dimension if they have one. A model that names none takes any tensors.
// Errors: INTERNAL.
base::Status read_metadata(std::string_view message, msg::ModelSpec& spec);
// max_batch, decoupled, optional inputs: laid over what read_metadata() has read. Errors: INTERNAL.
base::Status read_config(std::string_view message, msg::ModelSpec& spec);
// With max_batch > 0: its dimension goes off the front of what the metadata says. Errors: INTERNAL.
base::Status take_batch(msg::ModelSpec& spec);

}  // namespace weir::forward
