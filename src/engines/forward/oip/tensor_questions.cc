#include "engines/forward/oip/tensor_questions.h"

#include <utility>

namespace weir::forward {

using base::Status;

Status TensorQuestions::named(Status status) const {
  if (!status.ok()) status.text = "origin " + conn_.origin().name() + ": " + status.text;
  return status;
}

void TensorQuestions::tell(base::Result<msg::ModelSpec> spec) { std::exchange(then_, nullptr)(std::move(spec)); }

void TensorQuestions::ask_signature(const msg::ModelSpec& wanted, base::Duration timeout, OnSignature then) {
  spec_ = wanted;
  timeout_ = timeout;
  then_ = std::move(then);
  ask_ready(options_.connect_timeout + timeout, [this](base::Result<bool> ready) { heard_ready(std::move(ready)); });
}

void TensorQuestions::heard_ready(base::Result<bool> ready) {
  if (!ready) return tell(ready.error());
  if (!*ready) return tell(named(base::failure(base::Code::kUnavailable, "the model is not ready there")));
  ask_metadata();
}

void TensorQuestions::heard_metadata(Status status) {
  if (!status.ok()) return tell(std::move(status));
  ask_config();
}

void TensorQuestions::heard_config(Status status) {
  if (!status.ok()) return tell(std::move(status));
  tell(std::move(spec_));
}

}  // namespace weir::forward
