#include "sched/runner.h"

#include <algorithm>
#include <exception>
#include <new>
#include <variant>

#include "base/attempt.h"
#include "base/log.h"
#include "base/recycled.h"
#include "base/until_done.h"
#include "sched/fit.h"

namespace weir::sched {
namespace {

using base::Code;
using base::Duration;
using base::failure;
using base::Status;
using base::Time;

uint64_t ns(Duration d) { return uint64_t(std::max<int64_t>(d.count(), 0)); }

Status still_wanted(const msg::Call& call, Time now) {
  if (call.deadline <= now) return failure(Code::kDeadlineExceeded, "the deadline passed before the model ran");
  if (call.cancelled.load(std::memory_order_acquire)) return failure(Code::kCancelled, "cancelled");
  return {};
}

}  // namespace

void Runner::run(const std::vector<msg::Call*>& calls) {
  answer_if_thrown(calls, [&] {
    if (calls.size() > 1 && together(calls)) return;
    if (calls.size() == 1) return alone(calls.front(), room_.now());
    one_by_one(calls);
  });
}

// All of the calls are answered afterwards, unless nothing has been thrown and `work` has left them.
template <class Work>
void Runner::answer_if_thrown(const std::vector<msg::Call*>& calls, Work&& work) {
  owed_ = &calls, answered_ = 0;
  Status status = base::attempt("a lane", work);
  if (!status.ok()) {
    room_.events.clear();
    release();
    while (answered_ < calls.size()) base::until_done("a lane", [&] { refuse(calls[answered_], status); });
  }
  owed_ = nullptr;
}

void Runner::one_by_one(const std::vector<msg::Call*>& calls) {
  for (auto* call : calls) {
    auto now = room_.now();  // the batch that failed took its time
    auto status = still_wanted(*call, now);
    if (status.ok())
      alone(call, now);
    else
      refuse(call, std::move(status));
    post();
  }
}

Runner::Launched Runner::launch(const std::vector<msg::Call*>& calls, Company company) {
  auto outcome = Launched::kOver;
  answer_if_thrown(calls, [&] {
    launched_ = Clock{.started = room_.now()};
    batch_.marks = {};
    auto status = guarded([&] {
      batch_.calls = room_.under_way = calls;
      return staged(launched_) ? engine_.launch(batch_) : unstaged();
    });
    if (status.ok()) {
      outcome = Launched::kUnderWay;
      return;
    }
    release();
    if (status.code == Code::kResourceExhausted && company == Company::kOthers)
      outcome = Launched::kLater;
    else
      over(calls, std::move(status));
  });
  return outcome;
}

bool Runner::land() {
  auto landing = Engine::Landing::kUnderWay;
  auto status = guarded([&]() -> Status {
    auto polled = engine_.poll(batch_);
    if (!polled) return polled.error();
    landing = *polled;
    return {};
  });
  if (status.ok() && landing == Engine::Landing::kUnderWay) return false;
  answer_if_thrown(room_.under_way, [&] { landed(std::move(status)); });
  return true;
}

void Runner::landed(Status status) {
  const auto& marks = batch_.marks;
  if (marks.arrived != base::kNever) launched_.computing = marks.arrived;
  launched_.landed = marks.landed != base::kNever ? marks.landed : room_.now();
  launched_.computed = marks.computed != base::kNever ? marks.computed : launched_.landed;
  if (status.ok()) status = guarded([this] { return part(); });
  if (status.ok()) {
    answer(launched_);
  } else {
    release();
    over(room_.under_way, std::move(status));
  }
  release();
}

// Calls that failed together. A lost device fails them one by one, too.
void Runner::over(const std::vector<msg::Call*>& calls, Status why) {
  if (calls.size() > 1 && why.code != Code::kUnavailable) return one_by_one(calls);
  for (auto* call : calls) refuse(call, why);
}

// Sinks of the answer may come back here with another call, so nothing of the Room is in use any more when it leaves.
void Runner::run_here(msg::Call* call) {
  call->times.queued = room_.now();
  Clock clock{.started = call->times.queued};
  auto run = [&]() -> Status {
    if (auto status = rows_fit(*call, spec_); !status.ok()) return status;
    return try_alone(call, clock);
  };
  Status status = run();
  if (status.ok()) settle(clock);
  msg::Mail mail{call, status.ok() ? std::move(room_.events.front()) : failed(*call, std::move(status))};
  room_.events.clear();
  release();
  call->home->post_here(std::move(mail));
}

bool Runner::together(const std::vector<msg::Call*>& calls) {
  Clock clock{.started = room_.now()};
  auto status = guarded([&] {
    batch_.calls = calls;
    if (!staged(clock)) return unstaged();
    auto stepped = step(clock);
    return stepped.ok() ? part() : stepped;
  });
  if (status.ok()) answer(clock);
  release();
  return status.ok();
}

void Runner::alone(msg::Call* call, Time started) {
  Clock clock{.started = started};
  if (auto status = try_alone(call, clock); status.ok())
    answer(clock);
  else
    refuse(call, std::move(status));
  release();
}

Status Runner::try_alone(msg::Call* call, Clock& clock) {
  return guarded([&] {
    batch_.calls.assign(1, call);
    staged(clock);
    auto stepped = step(clock);
    return stepped.ok() ? part() : stepped;
  });
}

// One call's tensors are passed on as they are, in and out: reading the clock would take longer.
bool Runner::staged(Clock& clock) {
  bool room = stage(batch_, spec_, slabs_, engine_.reads_calls() ? Gather::kNot : Gather::kInputs, &engine_);
  clock.gathered = clock.computing = batch_.calls.size() == 1 ? clock.started : room_.now();
  return room;
}

Status Runner::unstaged() const {
  return base::failure(Code::kResourceExhausted, "no memory to gather a batch of model '" + spec_.name + "'");
}

// Exceptions of the allocator and of the libraries under an engine end here: the requests end, not the process.
template <class Run>
Status Runner::guarded(Run&& run) {
  try {
    return run();
  } catch (const std::bad_alloc&) {
    room_.events.clear();
    return base::try_again(Code::kResourceExhausted, "not enough memory to run model '" + spec_.name + "'");
  } catch (const std::exception& e) {
    room_.events.clear();
    base::log::error("an engine has thrown", {{"model", spec_.name}, {"what", e.what()}});
  } catch (...) {
    room_.events.clear();
    base::log::error("an engine has thrown", {{"model", spec_.name}});
  }
  return failure(Code::kInternal, "model '" + spec_.name + "' failed");
}

Status Runner::step(Clock& clock) {
  auto status = engine_.step(batch_);
  clock.computed = clock.landed = room_.now();
  return status;
}

// The answers of the batch's calls lie in room_.events afterwards: of all of them, or of none.
Status Runner::part() {
  if (!batch_.answers.empty()) return part_answers();
  if (part_alone()) return {};
  Split split(batch_, spec_, room_.parts);
  if (!split.status().ok() && batch_.calls.size() > 1) return split.status();
  auto& events = room_.events;
  events.clear();
  for (size_t i = 0; i < batch_.calls.size(); ++i) {
    auto& event = events.emplace_back();  // of Outputs
    auto& tensors = std::get<msg::Outputs>(event.what).tensors;
    tensors = base::SpareVector<msg::Tensor>::take();
    if (auto status = split.next(tensors); !status.ok()) event.what = msg::Failed{std::move(status)};
  }
  return {};
}

// The same for most calls that are alone; else false, and no vector of tensors was taken.
bool Runner::part_alone() {
  if (batch_.calls.size() != 1 || !batch_.calls.front()->outputs.empty()) return false;
  room_.events.clear();
  auto& tensors = std::get<msg::Outputs>(room_.events.emplace_back().what).tensors;
  tensors = base::SpareVector<msg::Tensor>::take();
  return move_outputs(batch_, spec_, tensors);
}

// The same where the engine has answered each call by itself.
Status Runner::part_answers() {
  if (batch_.answers.size() != batch_.calls.size())
    return failure(Code::kInternal, "model '" + spec_.name + "' answered calls that it was not given");
  auto& events = room_.events;
  events.clear();
  for (auto& answer : batch_.answers) {
    if (answer)
      events.push_back({std::move(*answer)});
    else
      events.push_back({msg::Failed{std::move(answer).error()}});
  }
  return {};
}

void Runner::answer(Clock& clock) {
  settle(clock);
  for (size_t i = 0; i < batch_.calls.size(); ++i) mail(batch_.calls[i], std::move(room_.events[i]));
  room_.events.clear();
}

// Counts the batch and its calls, and writes their times. `started` says that the model has had the call, also one that
// it has failed alone (sched/sequence_inbox.cc). What fails a whole step says nothing of that.
void Runner::settle(Clock& clock) {
  uint64_t good = 0, rows = 0;
  Duration queued{0};
  const auto& events = room_.events;
  for (size_t i = 0; i < batch_.calls.size(); ++i) {
    if (!std::holds_alternative<msg::Outputs>(events[i].what)) continue;
    auto* call = batch_.calls[i];
    ++good, rows += call->rows;
    queued += clock.started - call->times.queued;
  }
  clock.finished = batch_.calls.size() == 1 ? clock.landed : room_.now();
  if (room_.instance >= 0) record(clock);
  if (good > 0) count(clock, good, rows, queued);
  for (size_t i = 0; i < batch_.calls.size(); ++i) {
    auto& times = batch_.calls[i]->times;
    times.started = clock.started, times.computing = clock.computing;
    times.computed = clock.computed, times.finished = clock.finished;
    times.batch_rows = batch_.rows;
    if (auto* failed = std::get_if<msg::Failed>(&events[i].what))
      stats_.add_failure(failed->status.code, ns(clock.finished - times.queued));
  }
}

// As Triton counts: durations of the batch once per request in it, executions once, inferences by rows.
void Runner::count(const Clock& clock, uint64_t calls, uint64_t rows, Duration queued) {
  auto input = ns(clock.computing - clock.started), infer = ns(clock.computed - clock.computing),
       output = ns(clock.finished - clock.computed);
  const uint64_t at_ms = base::unix_ms();
  stats_.ran({at_ms, calls, rows, ns(queued) + calls * ns(clock.finished - clock.started), ns(queued), calls * input,
              calls * infer, calls * output});
  for (size_t i = 0; stats_.durations && calls > 1 && i < batch_.calls.size(); ++i) {
    if (!std::holds_alternative<msg::Outputs>(room_.events[i].what)) continue;
    const Time came = batch_.calls[i]->times.queued;
    stats_.durations->add({ns(clock.finished - came), ns(clock.started - came), input, infer, output}, at_ms);
  }
  stats_.record_batch(batch_.rows, input, infer, output);
}

// The calls lie in the order in which they run, which is not always that in which they came.
void Runner::record(const Clock& clock) {
  auto& came = room_.came;
  came.clear();
  for (const auto* call : batch_.calls) came.push_back(std::min(call->times.queued, clock.started));
  const auto middle = came.begin() + ptrdiff_t((came.size() - 1) / 2);
  std::nth_element(came.begin(), middle, came.end());
  const Time first = *std::min_element(came.begin(), middle + 1), last = *std::max_element(middle, came.end());
  stats_.timeline.add({0, uint32_t(room_.instance), uint32_t(came.size()), batch_.rows, first, *middle, last,
                       clock.started, clock.gathered, clock.computing, clock.computed, clock.landed, clock.finished});
}

void Runner::refuse(msg::Call* call, Status status) { mail(call, failed(*call, std::move(status))); }

msg::Event Runner::failed(msg::Call& call, Status status) {
  call.times.finished = room_.now();
  stats_.add_failure(status.code, ns(call.times.finished - call.times.queued));
  return {msg::Failed{std::move(status)}};
}

void Runner::mail(msg::Call* call, msg::Event&& event) {
  room_.outgoing.add(call->home, {call, std::move(event)});
  if (owed_ && answered_ < owed_->size() && (*owed_)[answered_] == call) ++answered_;
}

// Inputs and outputs are freed before the answers leave, so that memory is back when clients receive them.
void Runner::release() {
  batch_.calls.clear();
  for (auto& tensor : batch_.inputs) tensor.data = {};
  for (auto& apart : batch_.apart) apart.bytes = 0, apart.rows.clear();
  batch_.outputs.clear();
  batch_.answers.clear();
}

void Runner::post() {
  if (!room_.order) return room_.outgoing.post();
  base::until_done("a lane", [this] { room_.order->post(room_.number, room_.outgoing.all()); });
  room_.outgoing.trim();
}

void Runner::post_last() {
  post();
  if (room_.order) base::until_done("a lane", [this] { room_.order->end(room_.number); });
}

}  // namespace weir::sched
