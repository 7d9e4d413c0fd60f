// The long work between a payload and a model, as tasks for the bus's workers: casts, copies into an element of BYTES,
// and checks of the strings inside BYTES. 60 MB of them would hold up a shard for a tenth of a second.
#pragma once

#include <optional>
#include <vector>

#include "base/offload_task.h"
#include "dialects/grps/mapping.h"
#include "msg/call.h"

namespace weir::grps {

// Makes a Call's inputs out of a payload (payload_to_inputs()), and checks them (marshal::check_call()).
class PrepareInputs final : public base::OffloadTask {
 public:
  // Without a message it takes the inputs that `call` has. `spec` must live until this has run: the sender sees to
  // that.
  PrepareInputs(const msg::ModelSpec& spec, base::SlabSource& slabs, msg::Call& call, std::optional<Message>&& message)
      : spec_(spec), slabs_(slabs), message_(std::move(message)) {
    call_.inputs = std::move(call.inputs);
  }
  void run() override;
  // After run(). Errors: those of payload_to_inputs() and check_call().
  base::Status hand_over(msg::Call& call, AnswerForm& form);

 private:
  const msg::ModelSpec& spec_;
  base::SlabSource& slabs_;
  std::optional<Message> message_;
  msg::Call call_;
  RequestForm request_form_;
  base::Status status_;
};

// The work of check_and_convert(), in bytes.
size_t work_of_converting(const AnswerForm& form, const std::vector<msg::Tensor>& outputs);
// Checks the outputs and does outputs_to_payload(). Errors: INTERNAL for outputs that are not as they say; those of
// outputs_to_payload().
base::Result<Message> check_and_convert(const AnswerForm& form, std::vector<msg::Tensor>&& outputs,
                                        base::SlabSource& slabs);

// The task that does check_and_convert() for one answer of a model.
class ConvertOutputs final : public base::OffloadTask {
 public:
  enum class Last : uint8_t { kNo, kYes };
  ConvertOutputs(std::vector<msg::Tensor>&& outputs, Last last, base::SlabSource& slabs)
      : outputs_(std::move(outputs)), last_(last), slabs_(slabs) {}
  size_t work(const AnswerForm& form) const { return work_of_converting(form, outputs_); }
  // Before run(). It has the form until then: there is one answer at a time.
  void begin(AnswerForm&& form) { form_ = std::move(form); }
  void run() override;

  Last last() const { return last_; }
  // After run().
  AnswerForm take_form() { return std::move(form_); }
  // Errors: those of check_and_convert().
  base::Result<Message> take_message() { return std::move(message_); }

 private:
  std::vector<msg::Tensor> outputs_;
  const Last last_;
  base::SlabSource& slabs_;
  AnswerForm form_;
  base::Result<Message> message_ = Message();
};

}  // namespace weir::grps
