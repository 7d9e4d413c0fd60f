#include "dialects/grps/inference.h"

#include <algorithm>

#include "marshal/check.h"
#include "marshal/tenant.h"
#include "marshal/times.h"

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

Status Inference::start() {
  if (answers_ == Answers::kMany) ask_for_pieces();
  Status status = marshal::check_call(spec(), call());
  if (status.ok()) status = call_.submit(*served_, *this, exchange_.ticket());
  if (!status.ok()) leave();
  return status;
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
  Status status = marshal::check_outputs(outputs.tensors);
  if (status.ok()) status = answered(std::move(outputs.tensors), outputs.final ? More::kNo : More::kYes);
  answered_ = true;
  if (answers_ == Answers::kOne || !status.ok()) return status;
  call_.owe();
  if (has_room()) call_.repay();
  return status;
}

void Inference::close(const msg::Call& call, Status status) {
  marshal::note(exchange_.record(), call);
  if (status.ok() && answers_ == Answers::kOne && !answered_) status = bus::no_answer();
  ended(std::move(status));
}

Status Prediction::ask(Message&& message, std::string_view model, Answers answers) {
  named_ = !message.model.empty();
  std::string named = message.model.empty() ? std::string(model) : std::move(message.model);
  Status status = find(named, answers);
  if (status.ok()) status = place(std::move(message), spec(), state_.slabs, call(), asked_);
  if (status.ok()) return start();
  leave();
  return status;
}

Status Prediction::answered(std::vector<msg::Tensor> outputs, More more) {
  auto reply = gather(asked_, array, std::move(outputs), state_.slabs);
  if (!reply) return std::move(reply).error();
  if (named_) reply->model = spec().name + "-" + spec().version;
  return replied(std::move(*reply), more);
}

}  // namespace weir::grps
