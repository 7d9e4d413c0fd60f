// The messages of the Open Inference Protocol over REST as a client of it has them: JSON, with tensors as bytes behind
// it (Triton's binary tensor data extension).
//
//   request = JSON { id, parameters, inputs: [{name, datatype, shape, parameters: {binary_data_size}}], outputs }
//             *bytes-of-an-input          ; Inference-Header-Content-Length: the length of the JSON
//   answer  = the same of outputs, or with `data` in the JSON
//
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

// JSON that is read on a shard: the head of an answer with bytes, or an answer of an origin that sends none.
inline constexpr size_t kMostJson = size_t(2) << 20;

struct RestRequest {
  size_t header = 0;              // bytes of the JSON
  std::vector<base::Bytes> body;  // the JSON, then the inputs' own bytes
};
RestRequest write_rest_request(const msg::Call& call);

// `header`: what the answer's Inference-Header-Content-Length says; all of it where there is none. Tensors alias
// `body`; those in JSON are converted into slabs. Errors: INTERNAL, saying what is wrong with it.
base::Result<msg::Outputs> read_rest_answer(const base::Bytes& body, std::string_view header, base::SlabSource& slabs);

// The same of GET /v2/models/<name> and of its /config as read_metadata() and read_config() of message.h.
base::Status read_rest_metadata(std::string_view json, msg::ModelSpec& spec);
base::Status read_rest_config(std::string_view json, msg::ModelSpec& spec);

}  // namespace weir::forward
