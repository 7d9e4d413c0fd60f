#include "dialects/oip/long_work.h"

#include <utility>

#include "base/attempt.h"

namespace weir::oip {

using base::Status;

// ReadRequest::run() and WriteAnswer::run() are called on a worker's thread, where nothing catches exceptions: they
// become a Status here.
void ReadRequest::run() {
  Status thrown = base::attempt("reading a request", [this] { status = read_(call_, options_); });
  if (!thrown.ok()) status = std::move(thrown);
}

void ReadRequest::hand_over(msg::Call& call, InferOptions& options) {
  call.id = std::move(call_.id);
  call.inputs = std::move(call_.inputs);
  call.outputs = std::move(call_.outputs);
  call.parameters = std::move(call_.parameters);
  call.priority = call_.priority;
  call.queue_timeout = call_.queue_timeout;
  call.session = call_.session;
  options = std::move(options_);
}

WriteAnswer::WriteAnswer(const msg::ModelSpec& spec, const msg::Call& call, const InferOptions& options,
                         msg::Outputs&& outputs, OutputForms forms, Write write, size_t bytes)
    : spec_(spec),
      options_(options.outputs),
      model_(call.model),
      version_(call.version),
      id_(call.id),
      outputs_(std::move(outputs)),
      forms_(std::move(forms)),
      write_(write),
      bytes_(bytes) {}

WriteAnswer::WriteAnswer(const msg::ModelSpec& spec, const msg::Call& call, const InferOptions& options, Status failure)
    : error(std::move(failure)),
      spec_(spec),
      options_(options.outputs),
      model_(call.model),
      version_(call.version),
      id_(call.id) {}

void WriteAnswer::run() {
  Status thrown = base::attempt("writing an answer", [this] { work(); });
  if (!thrown.ok()) status = std::move(thrown);
}

void WriteAnswer::work() {
  status = finish_outputs(spec_, options_, outputs_.tensors);
  if (status.ok() && write_) written = write_(reply(), forms_);
}

}  // namespace weir::oip
