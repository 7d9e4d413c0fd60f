#include "engines/process/decoupled.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>

#include "base/attempt.h"
#include "base/units.h"
#include "engines/process/decoupled_call.h"
#include "engines/process/nested.h"
#include "msg/priority.h"
#include "msg/readiness_probe.h"

namespace weir::process {
namespace {

using base::Code;
using base::failure;
using base::Status;
using Clock = std::chrono::steady_clock;

void rouse(const ChildCalls& child) {
  const uint64_t one = 1;
  (void)!::write(child.wake, &one, sizeof one);
}

// A call as a child is told of it.
std::shared_ptr<DecoupledCall> inside_of(const msg::ModelSpec& spec, const msg::Call& call) {
  auto inside = std::make_shared<DecoupledCall>();
  inside->call.id = call.id, inside->call.inputs = call.inputs, inside->call.outputs = call.outputs;
  inside->call.parameters = call.parameters, inside->call.queue_timeout = call.queue_timeout;
  inside->call.rows = call.rows, inside->call.trace = call.trace;
  inside->level = msg::level_of(spec, call.priority);
  inside->tenant = call.tenant;
  return inside;
}

class Decoupled final : public sched::DecoupledEngine, public msg::HasReadinessProbe {
 public:
  Decoupled(std::unique_ptr<Host> host, const FindModel& find, int wake, std::shared_ptr<DecoupledCalls> calls)
      : host_(std::move(host)),
        nested_(find, *host_, wake),
        calls_(std::move(calls)),
        own_(std::make_shared<ChildCalls>(*host_, wake)) {
    set_readiness_probe(host_->readiness());
    {
      std::lock_guard lock(calls_->mutex);
      calls_->children.push_back(own_);
    }
    thread_ = std::thread([this] { run(); });
  }
  ~Decoupled() override {
    {
      std::lock_guard lock(calls_->mutex);
      own_->host = nullptr, stopping_ = true;
    }
    rouse(*own_);
    thread_.join();
    nested_.cancel();
    ::close(own_->wake);
  }

  const msg::ModelSpec& spec() const override { return host_->spec(); }
  base::Result<std::unique_ptr<sched::AnswerSeries>> begin(const msg::Call& call) override;
  void on_answers(std::function<void()> wake) override {
    std::lock_guard lock(calls_->mutex);
    on_answers_ = std::move(wake);
  }
  bool serves_on() const override { return !host_->child().over(); }

 private:
  void run();
  Status turn();
  void rest();
  Status start_next();
  DecoupledCalls::Batch take_next();
  void end_unsent(const DecoupledCalls::Batch& batch, const Status& why);
  Status receive_all();
  Status take(const Message& message);
  Status take_answer(const Message& message);
  uint32_t most_hops() const {
    std::lock_guard lock(calls_->mutex);
    return own_->open.most_hops();
  }
  void note_work(bool works) {
    timed_ = works, run_until_ = Clock::now() + host_->options().timeout;
    if (const auto readiness = host_->readiness())
      readiness->set_work(works ? ChildReadiness::Work::kRuns : ChildReadiness::Work::kNone);
  }
  void fail_all(const Status& why);
  void notify_answers() const {
    std::function<void()> wake;
    {
      std::lock_guard lock(calls_->mutex);
      wake = on_answers_;
    }
    if (wake) wake();
  }

  const std::unique_ptr<Host> host_;
  Nested nested_;  // the thread's own, until that has ended
  const std::shared_ptr<DecoupledCalls> calls_;
  const std::shared_ptr<ChildCalls> own_;
  std::function<void()> on_answers_;  // under DecoupledCalls::mutex
  bool stopping_ = false;             // under DecoupledCalls::mutex
  // The thread's own.
  bool running_ = false;  // the child has a request that it has not taken
  bool timed_ = false;    // its time runs, until run_until_
  Clock::time_point run_until_, rest_at_;
  std::thread thread_;
};

base::Result<std::unique_ptr<sched::AnswerSeries>> Decoupled::begin(const msg::Call& call) {
  auto inside = inside_of(spec(), call);
  inside->child = own_;
  {
    std::lock_guard lock(calls_->mutex);
    if (!own_->over.ok()) return own_->over;
    calls_->add(inside);
    own_->called = true;
  }
  rouse(*own_);
  return make_series(calls_, std::move(inside));
}

void Decoupled::run() {
  ::pthread_setname_np(::pthread_self(), "decoupled");
  for (;;) {
    {
      std::lock_guard lock(calls_->mutex);
      if (stopping_) return;
    }
    Status status;
    Status thrown = base::attempt("a decoupled model's process", [&] { status = turn(); });
    if (!thrown.ok()) status = std::move(thrown);
    if (status.ok()) continue;
    fail_all(host_->end(std::move(status)));
    nested_.cancel();
    notify_answers();
    return;
  }
}

Status Decoupled::turn() {
  if (!running_)
    if (Status s = start_next(); !s.ok()) return s;
  rest();
  host_->child().wait(own_->wake, timed_ ? run_until_ : Clock::now() + std::chrono::seconds(1));
  uint64_t ignored;
  (void)!::read(own_->wake, &ignored, sizeof ignored);
  if (Status s = nested_.answer(); !s.ok()) return s;
  if (Status s = receive_all(); !s.ok()) return s;
  if (!timed_ || Clock::now() < run_until_) return {};
  return failure(Code::kUnavailable, "model '" + spec().name + "' did not return from a request within " +
                                         base::show_duration(host_->options().timeout) +
                                         " (process_timeout); it is started anew");
}

// The next request would be written into the input region now; answers may be on their way into the output region.
void Decoupled::rest() {
  if (running_ || Clock::now() < rest_at_) return;
  rest_at_ = Clock::now() + host_->options().rest;
  host_->shrink_input();
}

// The most urgent one, and with dynamic batching those behind it of its priority, as many rows as max_batch allows: the
// model gets all of them in one execute(), and may answer each whenever it likes. Their shapes may differ.
DecoupledCalls::Batch Decoupled::take_next() {
  const uint64_t most =
      host_->options().takes_many && spec().batching.dynamic ? std::max<uint64_t>(spec().max_batch, 1) : 0;
  std::unique_lock lock(calls_->mutex);
  auto batch = calls_->take(own_, most);
  const auto idle = calls_->call_idle();
  lock.unlock();
  if (idle) rouse(*idle);
  return batch;
}

Status Decoupled::start_next() {
  const auto batch = take_next();
  if (batch.empty()) return {};
  std::vector<Request> requests;
  for (const auto& inside : batch) {
    auto& request =
        requests.emplace_back(Request{.call = inside->number, .of = &inside->call, .rows = inside->call.rows});
    for (const auto& input : inside->call.inputs) request.inputs.push_back(&input);
  }
  Status sent = host_->run(batch.front()->number, requests);
  for (const auto& inside : batch) inside->call.inputs.clear();  // the child has a copy
  if (!sent.ok() && sent.code != Code::kResourceExhausted) return sent;
  if (!sent.ok()) {
    end_unsent(batch, sent);
    return {};
  }
  running_ = true;
  if (!timed_) note_work(true);  // else it is at work, and is to end that in time
  std::lock_guard lock(calls_->mutex);
  for (const auto& inside : batch) {
    if (!inside->abandoned) continue;
    // Whoever waited has left meanwhile, and the child may have read kCancel before it had the call.
    if (Status s = host_->child().send({.type = Type::kCancel, .number = inside->number}); !s.ok()) return s;
  }
  return {};
}

void Decoupled::end_unsent(const DecoupledCalls::Batch& batch, const Status& why) {
  {
    std::lock_guard lock(calls_->mutex);
    for (const auto& inside : batch) {
      own_->open.remove(inside->number);
      inside->error = why, inside->ended = true;
    }
  }
  notify_answers();
  rouse(*own_);
}

Status Decoupled::receive_all() {
  for (;;) {
    auto message = host_->child().receive(Clock::time_point::min());
    if (!message) return message.error();
    if (!*message) return {};
    if (Status s = take(**message); !s.ok()) return s;
  }
}

Status Decoupled::take(const Message& message) {
  auto handled = host_->handle(message);
  if (!handled) return handled.error();
  if (*handled) return {};
  if (message.type == Type::kReturned && running_) {
    host_->note_flags(message);
    running_ = false;
    note_work(false);
    rouse(*own_);
    return {};
  }
  if (message.type == Type::kWorks) return note_work(message.number != 0), Status();
  if (message.type == Type::kAnswer) {
    host_->note_flags(message);
    return take_answer(message);
  }
  auto nested = nested_.handle(message, message.type == Type::kExec ? most_hops() : 0);
  if (!nested) return nested.error();
  if (*nested) return {};
  return failure(Code::kInternal, "the process of model '" + spec().name + "' sent what nobody has asked for");
}

Status Decoupled::take_answer(const Message& message) {
  auto answers = host_->read_answers(message, 1);
  if (!answers) return answers.error();
  if (Status s = host_->child().send({.type = Type::kTaken}); !s.ok()) return s;
  if (answers->empty()) return {};
  auto& answer = answers->front();
  {
    std::lock_guard lock(calls_->mutex);
    const auto found = own_->open.find(answer.call);
    if (!found) return {};  // nobody waits for it any more
    DecoupledCall& inside = *found;
    auto charge = calls_->answers->add(inside.tenant, answer.outputs);
    if (!charge) {
      answer.kind = AnswerKind::kError, answer.refused = true;
      answer.error = std::move(charge).error(), answer.outputs = {};
    }
    const bool is_end = answer.kind == AnswerKind::kEnd || answer.kind == AnswerKind::kError;
    if (!is_end && inside.answers.size() + inside.taken >= kWindow)  // an end needs no room
      return failure(Code::kInternal, "the process of model '" + spec().name + "' sent more answers than it may");
    answer.outputs.final = answer.kind == AnswerKind::kTensorsAndEnd;
    if (answer.kind == AnswerKind::kOneError)
      inside.answers.push_back({{msg::Failed{std::move(answer.error)}}, {}, cost_of(message)});
    else if (!is_end)
      inside.answers.push_back({{std::move(answer.outputs)}, *std::move(charge), cost_of(message)});
    else
      inside.error = std::move(answer.error);
    if (is_end || answer.kind == AnswerKind::kTensorsAndEnd) inside.ended = true, own_->open.remove(answer.call);
    // The child does not know that this was the last one, and would wait for room for the next.
    if (answer.refused)
      if (Status s = host_->child().send({.type = Type::kCancel, .number = answer.call}); !s.ok()) return s;
  }
  notify_answers();
  return {};
}

void Decoupled::fail_all(const Status& why) {
  std::unique_lock lock(calls_->mutex);
  calls_->end(*own_, why);
  const auto idle = calls_->call_idle();  // this one may have been called for a call that another is to have now
  lock.unlock();
  if (idle) rouse(*idle);
}

// Several instances of one model.
class Instances final : public sched::DecoupledEngine, public msg::HasReadinessProbe {
 public:
  Instances(std::vector<std::unique_ptr<Decoupled>> all, std::shared_ptr<DecoupledCalls> calls)
      : all_(std::move(all)), calls_(std::move(calls)) {
    std::vector<std::shared_ptr<msg::ReadinessProbe>> probes;
    for (const auto& one : all_) probes.push_back(one->readiness_probe());
    set_readiness_probe(msg::all_ready(std::move(probes)));
  }

  const msg::ModelSpec& spec() const override { return all_.front()->spec(); }
  std::vector<sched::DecoupledEngine*> instances() override {
    std::vector<sched::DecoupledEngine*> out;
    for (const auto& one : all_) out.push_back(one.get());
    return out;
  }
  base::Result<std::unique_ptr<sched::AnswerSeries>> begin(const msg::Call& call) override {
    auto inside = inside_of(spec(), call);
    std::shared_ptr<ChildCalls> idle;
    {
      std::lock_guard lock(calls_->mutex);
      const auto& children = calls_->children;
      if (std::none_of(children.begin(), children.end(), [](const auto& child) { return child->serves(); }))
        return children.front()->over;
      calls_->add(inside);
      idle = calls_->call_idle();
    }
    if (idle) rouse(*idle);
    return make_series(calls_, std::move(inside));
  }
  void on_answers(std::function<void()> wake) override {
    for (const auto& one : all_) one->on_answers(wake);
  }
  bool serves_on() const override {
    return std::any_of(all_.begin(), all_.end(), [](const auto& one) { return one->serves_on(); });
  }

 private:
  const std::vector<std::unique_ptr<Decoupled>> all_;
  const std::shared_ptr<DecoupledCalls> calls_;
};

}  // namespace

base::Result<std::unique_ptr<sched::DecoupledEngine>> make_decoupled(std::vector<std::unique_ptr<Host>> hosts,
                                                                     const FindModel& find, AnswerLimit limit) {
  const auto calls = std::make_shared<DecoupledCalls>(std::make_shared<WaitingAnswers>(limit));
  std::vector<std::unique_ptr<Decoupled>> all;
  for (auto& host : hosts) {
    const int wake = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake < 0) return failure(Code::kResourceExhausted, "no descriptor for a decoupled model");
    all.push_back(std::make_unique<Decoupled>(std::move(host), find, wake, calls));
  }
  if (all.size() == 1) return std::unique_ptr<sched::DecoupledEngine>(std::move(all.front()));
  return std::unique_ptr<sched::DecoupledEngine>(std::make_unique<Instances>(std::move(all), calls));
}

}  // namespace weir::process
