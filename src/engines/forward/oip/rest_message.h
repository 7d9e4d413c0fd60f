// The messages of the Open Inference Protocol over REST as a client of it has them: JSON, with tensors as bytes behind
// it (Triton's binary tensor data extension) where the origin knows that, and in it where it does not.
//
//   request = JSON { id, parameters, inputs: [{name, datatype, shape, parameters: {binary_data_size}}], outputs }
//             *bytes-of-an-input          ; Inference-Header-Content-Length: the length of the JSON
//           / JSON { …, inputs: [{name, datatype, shape, data}], … }
//   answer  = the same of outputs
//
// Pure; any thread. What an origin sends is a stranger's: a message is refused at its first excess.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/memory_ledger.h"
#include "base/status.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::forward {

// JSON that is read on a shard: the head of an answer with bytes, or an answer of an origin that sends none.
inline constexpr size_t kMostJson = size_t(2) << 20;
// Tensors as JSON that are written on a shard, at most (marshal::most_text): 262,144 floats take some 8 ms.
inline constexpr size_t kMostJsonOut = size_t(4) << 20;

struct RestRequest {
  size_t header = 0;              // bytes of the JSON
  std::vector<base::Bytes> body;  // the JSON, then the inputs' own bytes
};
RestRequest write_rest_request(const msg::Call& call);
// With its tensors' data in the JSON; a BYTES tensor with an element that is not UTF-8 is base64, and marked as
// MLServer marks it. Errors: INVALID_ARGUMENT, larger than kMostJsonOut; RESOURCE_EXHAUSTED, no memory for it.
base::Result<base::Bytes> write_rest_json(const msg::Call& call, base::MemoryLedger* ledger);

// `header`: what the answer's Inference-Header-Content-Length says; all of it where there is none. Tensors alias
// `body`; those in JSON are converted into slabs. Errors: INTERNAL, saying what is wrong with it.
base::Result<msg::Outputs> read_rest_answer(const base::Bytes& body, std::string_view header, base::SlabSource& slabs);

// The same of GET /v2/models/<name> and of its /config as read_metadata() and read_config() of message.h.
base::Status read_rest_metadata(std::string_view json, msg::ModelSpec& spec);
base::Status read_rest_config(std::string_view json, msg::ModelSpec& spec);
// Whether GET /v2 lists the extension binary_tensor_data. A server that does not may know it, one that does not know it
// takes JSON alone.
bool lists_binary_tensors(std::string_view json);

}  // namespace weir::forward
