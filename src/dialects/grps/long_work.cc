#include "dialects/grps/long_work.h"

#include "base/attempt.h"
#include "dialects/grps/types.h"
#include "marshal/check.h"

namespace weir::grps {

using base::Status;

void PrepareInputs::run() {
  Status thrown = base::attempt("preparing a request", [this] {
    if (message_) status_ = payload_to_inputs(*std::move(message_), spec_, slabs_, call_, request_form_);
    if (status_.ok()) status_ = marshal::check_call(spec_, call_);
  });
  if (!thrown.ok()) status_ = std::move(thrown);
}

Status PrepareInputs::hand_over(msg::Call& call, AnswerForm& form) {
  call.inputs = std::move(call_.inputs);
  call.rows = call_.rows;
  form.request = std::move(request_form_);
  return std::move(status_);
}

size_t work_of_converting(const AnswerForm& form, const std::vector<msg::Tensor>& outputs) {
  size_t bytes = marshal::string_bytes(outputs);
  if (form.request.kind == Kind::kNone || form.array == ArrayForm::kReturn) return bytes;
  for (const auto& tensor : outputs)
    if (carrier(tensor.dtype) != tensor.dtype) bytes += tensor.data.size();
  return bytes;
}

base::Result<Message> check_and_convert(const AnswerForm& form, std::vector<msg::Tensor>&& outputs,
                                        base::SlabSource& slabs) {
  if (Status status = marshal::check_outputs(outputs); !status.ok()) return status;
  return outputs_to_payload(form, std::move(outputs), slabs);
}

void ConvertOutputs::run() {
  Status thrown = base::attempt("preparing an answer",
                                [this] { message_ = check_and_convert(form_, std::move(outputs_), slabs_); });
  if (!thrown.ok()) message_ = std::move(thrown);
}

}  // namespace weir::grps
