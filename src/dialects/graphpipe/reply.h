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

// InferResponse with these tensors, in pieces that make up the message one behind the other. Large tensors are pieces
// of their own, without a copy; their first byte lies at a multiple of kDataAlign. The tensors have been checked
// (marshal::check_data). Errors: UNIMPLEMENTED (bfloat16), OUT_OF_RANGE (2 GiB and more, which no flatbuffer can be).
inline constexpr size_t kDataAlign = 16;
base::Result<std::vector<base::Bytes>> write_tensors(const std::vector<msg::Tensor>& tensors);
// `order`: which of them the answer has, one after the other. A tensor that stands in it twice is written once and
// referred to twice; one that does not stand in it is not written.
base::Result<std::vector<base::Bytes>> write_tensors(const std::vector<msg::Tensor>& tensors,
                                                     std::span<const size_t> order);

// InferResponse with one Error: gRPC's number for the code, and the text.
base::Bytes write_error(const base::Status& status);

struct ServerName {
  std::string_view name, version;
};
// MetadataResponse. Bfloat16 tensors have the type Null.
base::Bytes write_metadata(const msg::ModelSpec& spec, const ServerName& server);
// The same for people: indented JSON.
std::string metadata_json(const msg::ModelSpec& spec, const ServerName& server);
std::string describe(const msg::ModelSpec& spec);

}  // namespace weir::graphpipe
