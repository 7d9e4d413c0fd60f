// Converts payloads to a model's inputs, and its outputs to payloads. README.md has the table.
#pragma once

#include "base/status.h"
#include "bus/catalog.h"
#include "dialects/grps/gmap.h"
#include "dialects/grps/message.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::grps {

// The model that a request means by `name`: itself, or "name-version", the version after the last dash ("2", or "2.0.0"
// for "2"). Errors: those of Catalog::resolve(), and INVALID_ARGUMENT where the name has more than 256 bytes.
base::Result<bus::Served*> find_model(const bus::Catalog& catalog, std::string_view name);

// The kind of payload that a request had: its answers have the same.
struct RequestForm {
  Kind kind = Kind::kNone;
  RequestMaps maps;  // kMap
};

// Converts the payload to the Call's inputs, and fills `request`. Errors: INVALID_ARGUMENT saying which payload the
// model takes. Shapes and types are not checked here, but by marshal::check_call().
base::Status payload_to_inputs(Message&& message, const msg::ModelSpec& spec, base::SlabSource& slabs, msg::Call& call,
                               RequestForm& request);

// The work of payload_to_inputs() and check_call(), in bytes: those that are copied or cast, and those of strings.
size_t conversion_work(const Message& message, const msg::ModelSpec& spec);

// Makes a scalar (`value`, of any shape) the input of its name: one element in the declared shape, its number cast to
// the declared type. If the model takes any tensors, it has the shape [1].
base::Status set_scalar_input(msg::Tensor value, const msg::ModelSpec& spec, base::SlabSource& slabs, msg::Call& call);

enum class ArrayForm : uint8_t { kNo, kReturn };  // return-ndarray=true: one numeric output, or INVALID_ARGUMENT
struct AnswerForm {
  RequestForm request;  // kNone: gtensors
  ArrayForm array = ArrayForm::kNo;
  std::string model;  // the answer's
};

// Converts the outputs of a model to the kind of payload that the request had, or to gtensors if they do not fit in
// that kind. The outputs have been checked (marshal::check_outputs()). Any thread.
base::Result<Message> outputs_to_payload(const AnswerForm& form, std::vector<msg::Tensor> outputs,
                                         base::SlabSource& slabs);

}  // namespace weir::grps
