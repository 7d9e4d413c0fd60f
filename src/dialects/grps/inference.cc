#include "dialects/grps/inference.h"

#include <algorithm>
#include <utility>

#include "marshal/call_times.h"
#include "marshal/check.h"
#include "marshal/tenant.h"
#include "wire/offload.h"

namespace weir::grps {

using base::Status;

namespace {

Status too_often(const msg::ModelSpec& spec, std::string_view what) {
  return base::failure(base::Code::kUnimplemented, "model '" + spec.name + "' " + std::string(what) +
                                                       ": use streaming=true, or PredictStreaming over gRPC");
}

}  // namespace

Status Inference::find(std::string_view model, Answers answers) {
  auto found = find_model(state_.bus.catalog(marshal::models_of(exchange_.request())), model);
  if (!found) return found.error();
  served_ = *found;
  answers_ = answers;
  exchange_.record().model = served_->spec.name;
  if (answers == Answers::kOne && served_->spec.decoupled) return too_often(spec(), "may answer any number of times");
  call().model = served_->spec.name;
  call().version = served_->spec.version;
  marshal::set_caller(call(), exchange_);
  if (answers == Answers::kMany) call_.grant(bus::kAnswerWindow);
  return {};
}

Status Inference::start(std::optional<Message> message) {
  const size_t bytes = message ? conversion_work(*message, spec()) : marshal::string_bytes(call().inputs);
  Status status;
  if (bytes > wire::kLongBody) {
    preparing_ = true;
    auto prepare = std::make_unique<PrepareInputs>(spec(), state_.slabs, call(), std::move(message));
    status = send(std::move(prepare), bytes, bus::Admission::kAsked);
  } else {
    if (message) status = payload_to_inputs(*std::move(message), spec(), state_.slabs, call(), form_.request);
    if (status.ok()) status = marshal::check_call(spec(), call());
    if (status.ok()) status = submit();
  }
  if (!status.ok()) leave();
  return status;
}

Status Inference::send(Task task, size_t bytes, bus::Admission admission) {
  return work_.send(std::move(task), bus::weight_of_parsing(bytes), *served_, exchange_.ticket(),
                    marshal::tenant_of(exchange_.request()), admission);
}

Status Inference::submit() {
  if (answers_ == Answers::kMany) ask_for_pieces();
  return call_.submit(*served_, *this, exchange_.ticket());
}

void Inference::leave() {
  call_.abandon();
  work_.abandon();
  waiting_.clear();
  last_.reset();
}

void Inference::on_task(Status status, Task task) {
  if (std::exchange(preparing_, false)) {
    if (status.ok()) status = static_cast<PrepareInputs&>(*task).hand_over(call(), form_);
    if (status.ok()) status = submit();
    if (!status.ok()) leave(), ended(std::move(status));
    return;
  }
  if (status.ok()) status = deliver(static_cast<ConvertOutputs&>(*task));
  if (status.ok()) status = convert_next();
  if (!status.ok()) {
    leave();
    return end(std::move(status));
  }
  if (work_.running() || !last_) return;
  end(*std::exchange(last_, std::nullopt));
}

// A model of text makes one answer, unless it is told.
void Inference::ask_for_pieces() {
  auto is_stream = [](const msg::Tensor& t) { return t.name == "stream"; };
  const auto& inputs = call().inputs;
  if (!spec().text || std::any_of(inputs.begin(), inputs.end(), is_stream)) return;
  call().parameters.emplace_back("stream", true);
}

void Inference::on(msg::Call& call, msg::Event&& event) {
  bool last = call_.on_event(event);
  if (auto* outputs = std::get_if<msg::Outputs>(&event.what)) {
    Status status = take(*outputs);
    if (!status.ok() && !last) leave();
    if (last || !status.ok()) close(call, std::move(status));
  } else if (auto* failed = std::get_if<msg::Failed>(&event.what)) {
    close(call, std::move(failed->status));
  } else if (last) {
    close(call, {});
  }
}

Status Inference::take(msg::Outputs& outputs) {
  if (answers_ == Answers::kOne && !outputs.final) return too_often(spec(), "answers in more than one piece");
  const More more = outputs.final ? More::kNo : More::kYes;
  if (!work_.running() && work_of_converting(form_, outputs.tensors) <= wire::kLongBody)
    return deliver(check_and_convert(form_, std::move(outputs.tensors), state_.slabs), more);
  using enum ConvertOutputs::Last;
  waiting_.push_back(
      std::make_unique<ConvertOutputs>(std::move(outputs.tensors), outputs.final ? kYes : kNo, state_.slabs));
  return convert_next();
}

// Converts the answers that wait, in order: a short one here, a long one at a worker, where one is at a time.
Status Inference::convert_next() {
  while (!work_.running() && !waiting_.empty()) {
    auto next = std::move(waiting_.front());
    waiting_.erase(waiting_.begin());
    const size_t bytes = next->work(form_);
    next->begin(std::move(form_));
    if (bytes > wire::kLongBody) return send(std::move(next), bytes, bus::Admission::kGranted);
    next->run();
    if (Status status = deliver(*next); !status.ok()) return status;
  }
  return {};
}

Status Inference::deliver(ConvertOutputs& converted) {
  form_ = converted.take_form();
  return deliver(converted.take_message(), converted.last() == ConvertOutputs::Last::kYes ? More::kNo : More::kYes);
}

Status Inference::deliver(base::Result<Message> reply, More more) {
  if (!reply) return std::move(reply).error();
  Status status = answered(std::move(*reply), more);
  answered_ = true;
  if (answers_ == Answers::kOne || !status.ok()) return status;
  call_.owe();
  if (has_room()) call_.repay();
  return status;
}

void Inference::close(const msg::Call& call, Status status) {
  marshal::record_call(exchange_.record(), call);
  if (work_.running())
    last_ = std::move(status);
  else
    end(std::move(status));
}

void Inference::end(Status status) {
  if (status.ok() && answers_ == Answers::kOne && !answered_) status = bus::no_answer();
  ended(std::move(status));
}

Status Prediction::ask(Message&& message, std::string_view model, Answers answers) {
  const bool named = !message.model.empty();
  const std::string name = named ? std::move(message.model) : std::string(model);
  if (Status status = find(name, answers); !status.ok()) return leave(), status;
  if (named) form_.model = spec().name + "-" + spec().version;
  return start(std::move(message));
}

}  // namespace weir::grps
