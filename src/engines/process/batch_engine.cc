#include "engines/process/batch_engine.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "sched/fit.h"

namespace weir::process {
namespace {

using base::Code;
using base::failure;
using base::Status;
using Clock = std::chrono::steady_clock;

// Rows that something else has gathered are one request.
void add_gathered(const sched::Batch& batch, std::vector<Request>& requests) {
  Request request{.of = batch.calls.size() == 1 ? batch.calls.front() : nullptr, .rows = batch.rows};
  if (!request.of) request.wanted = &batch.wanted;
  for (const auto& input : batch.inputs)
    if (input.dtype != msg::DType::kInvalid) request.inputs.push_back(&input);
  requests.push_back(std::move(request));
}

void add_calls(const sched::Batch& batch, std::vector<Request>& requests) {
  for (size_t i = 0; i < batch.calls.size(); ++i) {
    const auto& call = *batch.calls[i];
    auto& request = requests.emplace_back(Request{.call = i, .of = &call, .rows = call.rows});
    for (const auto& input : call.inputs) request.inputs.push_back(&input);
  }
}

// While this lives the model has requests, whatever ends them: what throws must not leave it busy.
class AtWork {
 public:
  explicit AtWork(std::shared_ptr<ChildReadiness> readiness) : readiness_(std::move(readiness)) {
    if (readiness_) readiness_->set_work(ChildReadiness::Work::kRuns);
  }
  ~AtWork() {
    if (readiness_) readiness_->set_work(ChildReadiness::Work::kNone);
  }
  AtWork(const AtWork&) = delete;

 private:
  const std::shared_ptr<ChildReadiness> readiness_;  // null: the model does not say whether it is ready
};

}  // namespace

BatchEngine::~BatchEngine() { ::close(wake_); }

// The calls share a batch, so that each has the same inputs, with rows of one shape.
void BatchEngine::add_rows(const sched::Batch& batch) {
  auto& request = requests_.emplace_back(Request{.of = batch.calls.size() == 1 ? batch.calls.front() : nullptr,
                                                 .rows = batch.rows,
                                                 .parts = batch.calls.size(),
                                                 .wanted = &batch.wanted});
  for (size_t i = 0; i < spec().inputs.size(); ++i) {
    if (!sched::input_of(*batch.calls.front(), spec(), i)) continue;
    for (const auto* call : batch.calls) request.inputs.push_back(sched::input_of(*call, spec(), i));
  }
}

Status BatchEngine::step(sched::Batch& batch) {
  if (host_->child().over()) return host_->child().why();
  const auto lock = host_->hold();
  requests_.clear();
  const bool gathered = !batch.inputs.empty(), whole = gathered || form_ == Requests::kOfTheBatch;
  if (gathered)
    add_gathered(batch, requests_);
  else
    whole ? add_rows(batch) : add_calls(batch, requests_);
  told_.assign(batch.calls.size(), false);
  Status sent = host_->run(++number_, requests_);
  if (sent.code == Code::kResourceExhausted) return sent;
  if (!sent.ok()) return host_->end(std::move(sent));
  auto answers = [&] {
    const AtWork at_work(host_->readiness());
    return wait(batch);
  }();
  nested_.cancel();  // those that the model has not waited for
  if (!answers) return host_->end(std::move(answers).error());
  if (whole) return give_outputs(batch, answers->front());
  batch.answers.clear();
  for (size_t i = 0; i < batch.calls.size(); ++i) batch.answers.push_back(choose(*batch.calls[i], (*answers)[i]));
  return {};
}

base::Result<std::vector<Answer>> BatchEngine::wait(const sched::Batch& batch) {
  const auto deadline = Clock::now() + host_->options().timeout;
  uint32_t hops = 0;
  for (const auto* call : batch.calls) hops = std::max(hops, hops_of(*call));
  for (;;) {
    auto message = receive(deadline);
    if (!message) return message.error();
    if (!*message) {
      if (Clock::now() >= deadline)
        return failure(Code::kUnavailable, "model '" + spec().name + "' did not answer within " +
                                               base::show_duration(host_->options().timeout) +
                                               " (process_timeout); it is started anew");
      tell_cancelled(batch);
      continue;
    }
    auto handled = host_->handle(**message);
    if (!handled) return handled.error();
    if (*handled) continue;
    handled = nested_.handle(**message, hops);
    if (!handled) return handled.error();
    if (*handled) continue;
    return read(**message);
  }
}

// While the model waits for other models, their answers are looked for, too.
base::Result<std::optional<Message>> BatchEngine::receive(Clock::time_point deadline) {
  if (!nested_.some()) return host_->child().receive(deadline);
  host_->child().wait(wake_, std::min(deadline, Clock::now() + std::chrono::milliseconds(20)));
  uint64_t ignored;
  (void)!::read(wake_, &ignored, sizeof ignored);
  if (Status s = nested_.answer(); !s.ok()) return s;
  return host_->child().receive(Clock::time_point::min());
}

base::Result<std::vector<Answer>> BatchEngine::read(const Message& message) {
  const std::string who = "the process of model '" + spec().name + "' ";
  if (message.type != Type::kAnswers || message.number != number_)
    return failure(Code::kInternal, who + "sent what nobody has asked for");
  host_->note_flags(message);
  auto answers = host_->read_answers(message, requests_.size());
  if (!answers) return answers;
  std::sort(answers->begin(), answers->end(), [](const auto& a, const auto& b) { return a.call < b.call; });
  for (size_t i = 0; i < requests_.size(); ++i)
    if (i >= answers->size() || (*answers)[i].call != i || (*answers)[i].kind == AnswerKind::kEnd)
      return failure(Code::kInternal, who + "did not answer each request once");
  return answers;
}

// An engine of the server's own is not asked: it has no answer but that of the batch.
void BatchEngine::tell_cancelled(const sched::Batch& batch) {
  if (form_ == Requests::kOfTheBatch) return;
  for (size_t i = 0; i < batch.calls.size(); ++i) {
    if (told_[i] || !batch.calls[i]->cancelled.load(std::memory_order_acquire)) continue;
    told_[i] = host_->child().offer({.type = Type::kCancel, .number = i});
  }
}

// The outputs that the call asks for, in its order; all that were made, where it does not say.
base::Result<msg::Outputs> BatchEngine::choose(const msg::Call& call, Answer& answer) const {
  if (answer.kind == AnswerKind::kError) return std::move(answer.error);
  if (call.outputs.empty()) return std::move(answer.outputs);
  msg::Outputs chosen;
  chosen.parameters = std::move(answer.outputs.parameters);
  for (const auto& name : call.outputs) {
    auto& all = answer.outputs.tensors;
    auto found = std::find_if(all.begin(), all.end(), [&](const auto& t) { return t.name == name; });
    if (found == all.end()) return spec().no_output(name);
    chosen.tensors.push_back(*found);
  }
  return chosen;
}

Status BatchEngine::give_outputs(sched::Batch& batch, Answer& answer) const {
  if (answer.kind == AnswerKind::kError) return std::move(answer.error);
  // Their rows are the calls'.
  if (Status s = host_->check_shapes(answer.outputs.tensors); !s.ok()) return s;
  batch.outputs.assign(spec().outputs.size(), {});
  for (auto& tensor : answer.outputs.tensors)
    batch.outputs[size_t(spec().output(tensor.name) - spec().outputs.data())] = std::move(tensor);
  return {};
}

}  // namespace weir::process
