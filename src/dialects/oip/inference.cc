#include "dialects/oip/inference.h"

#include <utility>

#include "bus/cache_stats.h"
#include "dialects/oip/forwarded_headers.h"
#include "dialects/oip/pb_infer.h"
#include "dialects/oip/shared_memory/shared_inputs.h"
#include "marshal/call_times.h"
#include "marshal/check_inputs.h"
#include "marshal/tenant.h"

namespace weir::oip {

using base::Status;

Status Inference::find() {
  msg::Call& call = this->call();
  auto found = state_.bus.catalog(marshal::models_of(exchange_.request())).resolve(call.model, call.version);
  if (!found) return std::move(found).error();
  served_ = *found;
  if (call.model.empty()) call.model = served_->spec.name;
  exchange_.record().model = served_->spec.name;
  return {};
}

Status Inference::start() {
  auto place_and_submit = [this]() -> Status {
    if (!served_)
      if (Status status = find(); !status.ok()) return status;
    if (options.shared.empty() && options.outputs.empty()) return submit();
    if (Status status = find_shared(state_.regions, exchange_.request(), call(), options); !status.ok()) return status;
    if (options.shared.empty()) return submit();
    std::unique_ptr<CopyInputs> copies;
    const Place place = bus::cache_stats(*served_) ? Place::kCopy : Place::kAlias;
    if (Status status = place_shared(state_.slabs, place, call(), options, copies); !status.ok()) return status;
    if (!copies) return submit();
    doing_ = Work::kCopying;
    const size_t bytes = bus::weight_of_parsing(copies->bytes() / (kLongCopy / kLongRequest));
    return work_.send(std::move(copies), bytes, *served_, exchange_.ticket(), marshal::tenant_of(exchange_.request()));
  };
  Status status = place_and_submit();
  if (status.ok()) return status;
  if (served_) trace_.end(state_.traces, served_->spec.name, call(), protocol_, status.code);
  leave();
  return status;
}

Status Inference::submit(Strings strings) {
  msg::Call& call = this->call();
  if (strings == Strings::kUnchecked) {
    const bool is_long = marshal::strings_to_count(call.inputs) > marshal::kManyStrings;
    const auto check = is_long ? marshal::StringLengths::kSkip : marshal::StringLengths::kCheck;
    if (Status status = marshal::check_call(served_->spec, call, check); !status.ok()) return status;
    if (is_long) {
      doing_ = Work::kChecking;
      const size_t bytes = marshal::string_bytes(call.inputs);
      return work_.send(std::make_unique<marshal::CheckInputs>(call), bus::weight_of_parsing(bytes), *served_,
                        exchange_.ticket(), marshal::tenant_of(exchange_.request()));
    }
  }
  if (Status status = forward_headers(state_.options.forward_headers, exchange_.request().fields, call.parameters);
      !status.ok())
    return status;
  call.version = served_->spec.version;
  marshal::set_caller(call, exchange_);
  trace_.begin(state_.traces, served_->spec.name, call);
  auto lend = [&]() -> Status {
    Status status = call_.submit(*served_, *this, exchange_.ticket());
    submitted_ = status.ok();
    return status;
  };
  return lend();
}

// A Call that runs is traced once it is abandoned: then Traces leaves out the times that its Inbox may still write. It
// lives until its last Event is drained.
void Inference::leave(base::Code code) {
  const msg::Call* lent = call_.running() ? &call() : nullptr;
  call_.abandon();
  if (lent) trace_.end(state_.traces, served_->spec.name, *lent, protocol_, code);
  work_.abandon();
  waiting_.clear();
  last_.reset();
}

Status Inference::read_on_worker(size_t bytes, ReadRequest::Read read) {
  doing_ = Work::kReading;
  return work_.send(std::make_unique<ReadRequest>(std::move(read)), bus::weight_of_parsing(bytes), *served_,
                    exchange_.ticket(), marshal::tenant_of(exchange_.request()));
}

Status Inference::read_on_worker(const base::Bytes& message) {
  Status status = read_head(message, call(), options);
  if (status.ok()) status = find();
  if (!status.ok()) return status;
  return read_on_worker(message.size(), [message, slabs = &state_.slabs](msg::Call& call, InferOptions& options) {
    return read_infer(message, *slabs, call, options);
  });
}

void Inference::on(msg::Call& call, msg::Event&& event) {
  bool last = call_.on_event(event);
  if (auto* outputs = std::get_if<msg::Outputs>(&event.what)) {
    Status status = answer(call, *outputs, last ? More::kNo : More::kYes);
    if (!status.ok() && !last) call_.abandon();
    if (last || !status.ok()) close(call, status);
  } else if (auto* failed = std::get_if<msg::Failed>(&event.what); failed && last) {
    close(call, failed->status);
  } else if (failed) {
    waiting_.push_back(std::make_unique<WriteAnswer>(spec(), call, options, std::move(failed->status)));
    (void)write_on();
  } else if (last) {
    close(call, {});
  }
}

Status Inference::answer(msg::Call& call, msg::Outputs& outputs, More more) {
  trace_.add_answer(outputs.tensors);
  if (!options.shared.empty())
    if (Status status = check_shared(options); !status.ok()) return status;
  if (Status status = select_outputs(served_->spec, call, options, outputs, forms_); !status.ok()) return status;
  size_t work = 0;  // of all of its bytes it is not more
  for (const auto& tensor : outputs.tensors) work += tensor.data.size();
  if (work > kLongAnswer) work = work_on(options.outputs, outputs.tensors, forms_, writes());
  if (!work_.running() && work <= kLongAnswer) {
    if (Status status = finish_outputs(served_->spec, options.outputs, outputs.tensors); !status.ok()) return status;
    deliver({call.model, call.version, call.id, outputs.parameters, outputs.tensors, &options.outputs}, forms_, more);
    return {};
  }
  auto& one = waiting_.emplace_back(
      std::make_unique<WriteAnswer>(served_->spec, call, options, std::move(outputs), forms_, writer(), work));
  one->last = more == More::kNo;
  return write_on();
}

// Writes the answers that wait, in order: a short one here, a long one at a worker, where one is at a time.
Status Inference::write_on() {
  while (!work_.running() && !waiting_.empty()) {
    auto next = std::move(waiting_.front());
    waiting_.erase(waiting_.begin());
    if (next->is_long()) {
      const size_t bytes = bus::weight_of_parsing(next->bytes());
      Status status = work_.send(std::move(next), bytes, *served_, exchange_.ticket(),
                                 marshal::tenant_of(exchange_.request()), bus::Admission::kGranted);
      if (!status.ok()) return status;
    } else {
      next->run();
      if (!next->status.ok()) return next->status;
      deliver(*next);
    }
  }
  return {};
}

// Whether this answer is sent. A request for one answer takes the first; of a decoupled model an answer without tensors
// is none, but only the end.
bool Inference::takes(const std::vector<msg::Tensor>& tensors) {
  if (streams()) return true;
  if (answered_) {
    answered_again_ = answered_again_ || !tensors.empty();
    return false;
  }
  answered_ = !tensors.empty() || !spec().decoupled;
  return answered_;
}

void Inference::deliver(const InferReply& reply, const OutputForms& forms, More more) {
  if (takes(reply.tensors)) answered(reply, forms, more);
  sent();
}

void Inference::deliver(WriteAnswer& answer) {
  const More more = answer.last ? More::kNo : More::kYes;
  if (!writer()) return deliver(answer.reply(), answer.forms(), more);
  if (takes(answer.reply().tensors)) written(answer, more);
  sent();
}

void Inference::sent() {
  if (!streams()) return;
  call_.owe();
  if (has_room()) call_.repay();
}

void Inference::close(const msg::Call& call, const Status& status) {
  marshal::record_call(exchange_.record(), call);
  trace_.end(state_.traces, served_->spec.name, call, protocol_, status.code);
  if (work_.running())
    last_ = status;
  else
    end(status);
}

void Inference::end(const Status& status) {
  if (status.ok() && answered_again_)
    return ended(base::failure(base::Code::kUnimplemented,
                               "the model answered more than once: use " + std::string(streamed_by_)));
  if (status.ok() && !streams() && !answered_) return ended(bus::no_answer());
  ended(status);
}

void Inference::on_task(Status status, std::unique_ptr<bus::OffloadTask> task) {
  const Work done = std::exchange(doing_, Work::kWriting);
  if (done == Work::kWriting) return wrote(std::move(status), std::move(task));
  if (done == Work::kReading) {
    if (status.ok()) {
      auto& read = static_cast<ReadRequest&>(*task);
      status = std::move(read.status);
      read.hand_over(call(), options);
    }
    return request_read(std::move(status));
  }
  if (done == Work::kChecking) {
    if (status.ok()) status = static_cast<marshal::CheckInputs&>(*task).hand_over(call());
    if (status.ok()) status = submit(Strings::kChecked);
  } else {
    if (status.ok()) status = static_cast<CopyInputs&>(*task).hand_over(call().inputs);
    if (status.ok()) status = submit();
  }
  if (status.ok()) return;
  trace_.end(state_.traces, served_->spec.name, call(), protocol_, status.code);
  leave();
  end(status);
}

// A failure ends it all: what is behind it would not be in its place.
void Inference::wrote(Status status, std::unique_ptr<bus::OffloadTask> task) {
  if (status.ok()) {
    auto& answer = static_cast<WriteAnswer&>(*task);
    status = std::move(answer.status);
    if (status.ok()) deliver(answer);
  }
  if (status.ok()) status = write_on();
  if (!status.ok()) {
    leave(status.code);
    return end(status);
  }
  if (work_.running() || !last_) return;
  const Status last = *std::exchange(last_, std::nullopt);
  end(last);
}

}  // namespace weir::oip
