// The infer request and response over HTTP (Open Inference Protocol, "Inference Request JSON Object", and the binary
// tensor data extension).
//
//   {"id":…, "parameters":{…},
//    "inputs":[{"name":…, "shape":[…], "datatype":…, "parameters":{…}, "data":[…]}, …],
//    "outputs":[{"name":…, "parameters":{…}}, …]}
// With `Inference-Header-Content-Length: N` the first N bytes of the body are that JSON, and the raw data of the inputs
// that have `binary_data_size` follow, in their order. N = 0: the whole body is the raw data of the model's one input.
// A BYTES input or output whose elements are not text has `"content_type":"base64"` in its parameters (as MLServer).
// Members may come in any order; those that are not known are passed over.
#pragma once

#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "dialects/oip/infer_options.h"
#include "dialects/oip/json_template.h"
#include "dialects/oip/reply.h"
#include "marshal/json_pieces.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::oip {

// `json_size` is how much of `body` is JSON. Binary tensors alias the body. `call` and `options` are fresh but for the
// model. A template, if there is one, is used and learned. Errors: INVALID_ARGUMENT.
base::Status read_infer(const base::Bytes& body, size_t json_size, base::SlabSource& slabs, msg::Call& call,
                        InferOptions& options, RequestTemplate* known = nullptr);
// Whether the body begins as PNG, JPEG or WebP do, which no JSON does.
bool is_picture(std::string_view body);
// The body is the one element of the model's only input, of type BYTES. Outputs that have labels are answered by their
// best kPictureClasses classes, the others by their values, as JSON. Errors: INVALID_ARGUMENT.
inline constexpr uint32_t kPictureClasses = 5;
base::Status read_picture_infer(const base::Bytes& body, const msg::ModelSpec& spec, base::SlabSource& slabs,
                                msg::Call& call, InferOptions& options);
// The raw form: the whole body is one input. A dimension that is not declared is worked out from the size.
base::Status read_raw_infer(const base::Bytes& body, const msg::ModelSpec& spec, base::SlabSource& slabs,
                            msg::Call& call, InferOptions& options);

struct JsonReply {
  // A tensor whose text is made as it is sent, and the text before it.
  struct Large {
    std::string before;
    marshal::DataPieces data;
  };
  std::vector<Large> large;
  std::string json;                // all of it, or what follows the last of `large`
  std::vector<base::Bytes> blobs;  // binary outputs, to follow the JSON
};
// kPieces: tensors that make much text are left to be written later, unless there are binary outputs (whose readers
// must know how long the JSON is).
enum class LargeTensors : uint8_t { kInline, kPieces };
JsonReply write_infer(const InferReply& reply, const OutputForms& forms, LargeTensors large = LargeTensors::kInline,
                      AnswerTemplate* known = nullptr);

// Appends "name":value.
void write_parameter(std::string& out, std::string_view name, const msg::ParamValue& value);

}  // namespace weir::oip
