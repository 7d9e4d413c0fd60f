// How payloads meet models; the table is in README.md.
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

// How the request was put, which is how its answers are.
struct Asked {
  Kind kind = Kind::kNone;
  AskedMaps maps;  // kMap
};

// Turns the payload into the Call's inputs. Errors: INVALID_ARGUMENT saying which payload the model takes. What shapes
// and types must be otherwise is marshal::check_call()'s to say.
base::Status place(Message&& message, const msg::ModelSpec& spec, base::SlabSource& slabs, msg::Call& call,
                   Asked& asked);

// The bytes of a payload that place() copies or casts, and of strings inside BYTES that check_call() counts.
size_t work_of_placing(const Message& message, const msg::ModelSpec& spec);

// A scalar (`value`, any shape) as the named input: one element in the declared shape, its number cast to the declared
// type. Where the model takes anything, a tensor of shape [1].
base::Status place_scalar(msg::Tensor value, const msg::ModelSpec& spec, base::SlabSource& slabs, msg::Call& call);

enum class ArrayForm : uint8_t { kNo, kReturn };  // return-ndarray=true: one numeric output, or INVALID_ARGUMENT
struct AnswerForm {
  Asked asked;  // kNone: the outputs are wanted as they are
  ArrayForm array = ArrayForm::kNo;
  std::string model;  // the answer's
};

// The answer of a model as the kind of payload that was asked with; gtensors where it does not fit in that kind. The
// outputs have been checked (marshal::check_outputs()). Any thread.
base::Result<Message> gather(const AnswerForm& form, std::vector<msg::Tensor> outputs, base::SlabSource& slabs);

}  // namespace weir::grps
