// Answers as flatbuffers (proto/graphpipe.fbs).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "msg/spec.h"
#include "msg/tensor.h"

namespace weir::graphpipe {

// An InferResponse with these tensors. The pieces, concatenated, are the message. A large tensor is a piece of its own,
// which is not copied; it begins at a multiple of kDataAlign bytes. The caller has checked the tensors
// (marshal::check_data). Errors: UNIMPLEMENTED (bfloat16), OUT_OF_RANGE (a flatbuffer must be smaller than 2 GiB).
inline constexpr size_t kDataAlign = 16;
base::Result<std::vector<base::Bytes>> write_tensors(const std::vector<msg::Tensor>& tensors);
// `order`: the indices of the answer's outputs in `tensors`. A tensor whose index is there twice is written once and
// referred to twice; one whose index is missing is not written. What is copied lies in one slab of `slabs`, which is
// taken before anything is written: bad_alloc where there is no room.
base::Result<std::vector<base::Bytes>> write_tensors(const std::vector<msg::Tensor>& tensors,
                                                     std::span<const size_t> order,
                                                     base::SlabSource& slabs = base::heap());
// The most bytes that the strings of a tensor of BYTES take in an answer.
uint64_t strings_bytes(const msg::Tensor& tensor);

// InferResponse with one Error: gRPC's number for the code, and the text.
base::Bytes write_error(const base::Status& status);

struct ServerName {
  std::string_view name, version;
};
// MetadataResponse. Bfloat16 tensors have the type Null.
base::Bytes write_metadata(const msg::ModelSpec& spec, const ServerName& server);
// The metadata as indented JSON.
std::string metadata_json(const msg::ModelSpec& spec, const ServerName& server);
// One line about the model: its platform, version and limits.
std::string describe(const msg::ModelSpec& spec);

}  // namespace weir::graphpipe
