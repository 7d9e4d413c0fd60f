#include "engines/forward/shard_model.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "base/attempt.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/units.h"
#include "bus/mail_bursts.h"
#include "engines/forward/oip_message.h"
#include "sched/fit.h"

namespace weir::forward {

using base::Code;
using base::failure;
using base::Status;
using base::Time;

namespace {

constexpr std::string_view kInfer = "/inference.GRPCInferenceService/ModelInfer";
constexpr std::string_view kStreamInfer = "/inference.GRPCInferenceService/ModelStreamInfer";
constexpr auto kLook = std::chrono::milliseconds(500);  // for calls that take too long
constexpr int64_t kMostDigits = 100'000'000;            // of grpc-timeout

uint64_t nanoseconds(base::Duration d) { return uint64_t(std::max<int64_t>(d.count(), 0)); }

std::string grpc_timeout(base::Duration left) {
  const int64_t micros = std::max<int64_t>(std::chrono::duration_cast<std::chrono::microseconds>(left).count(), 1);
  if (micros < kMostDigits) return std::to_string(micros) + 'u';
  if (micros / 1000 < kMostDigits) return std::to_string(micros / 1000) + 'm';
  return std::to_string(std::min(micros / 1'000'000, kMostDigits - 1)) + 'S';
}

std::string hex_digits(uint64_t number) {
  std::string out(16, '0');
  for (size_t i = out.size(); i-- > 0; number >>= 4) out[i] = "0123456789abcdef"[number & 15];
  return out;
}

Status client_left() { return failure(Code::kCancelled, "the client has left"); }

}  // namespace

// One Call at one origin, or on its way to another.
class ShardModel::InferCall final : public GrpcCall {
 public:
  InferCall(ShardModel& its_home, msg::Call* its_call, Came its_way)
      : GrpcCall(its_home.slabs_, its_home.target_->options.max_answer),
        home(its_home),
        call(its_call),
        came(its_way) {}

  using GrpcCall::give_up_late;
  bool streams() const { return home.spec_.decoupled; }
  // Messages that came while the Call had no credit; then its end.
  bool deliver();

  ShardModel& home;
  msg::Call* const call;
  const Came came;
  Calls::iterator at;
  Origin* origin = nullptr;  // where it is, or was last
  uint32_t attempts = 0;
  Time progress{};                     // when it was sent, or the last message came
  std::deque<msg::Outputs> waiting;    // for credit
  std::optional<Status> end;           // behind those
  std::optional<msg::Outputs> answer;  // of a model that answers once; posted when the status has come
  bool posted = false;

 private:
  Next on_message(base::Bytes message) override;
  void on_over(Status status, From from) override;
  bool holds() const override { return !waiting.empty(); }
};

GrpcCall::Next ShardModel::InferCall::on_message(base::Bytes message) {
  progress = home.shard_.env().now();
  auto outputs = streams() ? read_streamed(message, home.slabs_) : read_answer(message, home.slabs_);
  Status status = outputs ? check_answer(home.spec_, outputs->tensors, streams() ? 0 : call->rows) : outputs.error();
  if (status.ok() && answer) status = failure(Code::kInternal, "it answered twice");
  if (!status.ok()) return give_up(std::move(status)), Next::kOver;
  if (!streams()) {
    answer = std::move(*outputs);
    return Next::kGoOn;
  }
  if (outputs->tensors.empty()) return Next::kGoOn;  // the end is told by the call's status
  waiting.push_back(std::move(*outputs));
  (void)deliver();
  return Next::kGoOn;
}

// False: it is over, and gone.
bool ShardModel::InferCall::deliver() {
  while (!waiting.empty() && call->credit.load(std::memory_order_acquire) > 0) {
    msg::Outputs outputs = std::move(waiting.front());
    waiting.pop_front();
    home.answer(*this, std::move(outputs));
  }
  if (!waiting.empty()) return true;
  progress = home.shard_.env().now();
  let_go();
  if (!end) return true;
  home.finish(*this, *std::move(end));
  return false;
}

void ShardModel::InferCall::on_over(Status status, From from) {
  if (status.ok() && !waiting.empty())
    end = std::move(status);
  else
    home.over(*this, std::move(status), from);
}

ShardModel::ShardModel(net::Shard& shard, std::shared_ptr<Target> target, const msg::ModelSpec& spec,
                       bus::ModelStats& stats, base::SlabSource& slabs)
    : shard_(shard), target_(std::move(target)), spec_(spec), stats_(stats), slabs_(slabs) {
  for (auto& origin : target_->origins) conns_.push_back(std::make_unique<OriginConn>(shard_, *target_, origin));
}

ShardModel::~ShardModel() {
  base::check(calls_.empty(), "a forwarded model outlives its Calls");
  shard_.env().cancel(timer_);
}

OriginConn& ShardModel::conn_to(const Origin& origin) {
  for (auto& conn : conns_)
    if (&conn->origin() == &origin) return *conn;
  base::check(false, "an origin is one of the target's");
  return *conns_.front();
}

void ShardModel::put(msg::Call* call, Came came) {
  auto& infer = *calls_.emplace_back(std::make_unique<InferCall>(*this, call, came));
  infer.at = std::prev(calls_.end());
  repeats_ = std::min(kMostRepeats, repeats_ + kRepeatShare);
  call->times.started = call->times.computing = shard_.env().now();
  call->times.batch_rows = call->rows;
  Status status = call->cancelled.load(std::memory_order_acquire) ? client_left() : sched::rows_fit(*call, spec_);
  if (status.ok()) status = begin(infer);
  if (!status.ok()) return finish(infer, std::move(status));
  watch_time();
}

// Sends it to an origin. Not OK: there is none, and the Call is to be answered. Else it may be over already.
Status ShardModel::begin(InferCall& infer) {
  const msg::Call& call = *infer.call;
  const Time now = shard_.env().now();
  const uint64_t session = call.session.high ^ call.session.low;
  wire::Fields fields;
  if (call.deadline != base::kNever) {
    if (call.deadline <= now) return failure(Code::kDeadlineExceeded, "the deadline passed before it was forwarded");
    fields.add("grpc-timeout", grpc_timeout(call.deadline - now));
  }
  if (call.tenant != 0) fields.add("weir-tenant", hex_digits(call.tenant));
  if (infer.streams()) fields.add("triton_grpc_error", "true");
  const Origin* tried = infer.origin;
  Status last = base::try_again(Code::kResourceExhausted,
                                "every origin of model '" + spec_.name + "' has as many calls as it may (" +
                                    std::to_string(target_->options.max_outstanding) + "); try again later");
  for (size_t i = 0; i < target_->origins.size(); ++i) {
    Origin* origin = target_->choose(now, shard_.env().random(), session, tried);
    if (!origin) return last;
    infer.origin = origin;
    infer.progress = now;
    ++infer.attempts;
    auto body = write_request(call, target_->options.model, target_->options.version,
                              infer.streams() ? Ending::kTold : Ending::kAsItIs);
    last = infer.start(conn_to(*origin), infer.streams() ? kStreamInfer : kInfer, std::move(body), fields);
    if (last.ok()) return last;
    origin->eject();  // it cannot be reached now
    last = base::try_again(Code::kUnavailable, "origin " + origin->name + ": " + last.text);
    if (session != 0) return last;
    tried = origin;
  }
  return last;
}

// A call that may have run is not run again where that could be told: in sequences, and behind answers that have begun.
bool ShardModel::may_repeat(const InferCall& infer, GrpcCall::From from) {
  const msg::Call& call = *infer.call;
  if (from == GrpcCall::From::kOrigin || infer.posted || !(call.session == base::SessionId{})) return false;
  if (infer.attempts > target_->origins.size() || target_->origins.size() < 2) return false;
  if (from == GrpcCall::From::kUnsent) return true;
  if (infer.answered() || repeats_ < 1) return false;
  repeats_ -= 1;
  return true;
}

void ShardModel::over(InferCall& infer, Status status, GrpcCall::From from) {
  Origin& origin = *infer.origin;
  if (from == GrpcCall::From::kOrigin) {
    origin.broken.store(0, std::memory_order_relaxed);
  } else if (origin.broken.fetch_add(1, std::memory_order_relaxed) + 1 >= Origin::kEjectAfter ||
             from == GrpcCall::From::kUnsent) {
    origin.eject();
  }
  if (!status.ok() && may_repeat(infer, from) && !infer.call->cancelled.load(std::memory_order_acquire)) {
    Status again = begin(infer);
    if (again.ok()) return;
    status = std::move(again);
    return finish(infer, std::move(status));
  }
  if (!status.ok()) {
    const bool lost = from != GrpcCall::From::kOrigin && status.code != Code::kResourceExhausted;
    status.text = "origin " + origin.name + ": " + status.text;
    if (lost) status = base::try_again(Code::kUnavailable, std::move(status.text));
    // The client's own key was good; the one that the origin refuses is in the configuration.
    if (status.code == Code::kUnauthenticated || status.code == Code::kPermissionDenied) status.code = Code::kInternal;
  } else if (!infer.streams() && !infer.answer) {
    status = failure(Code::kInternal, "origin " + origin.name + ": it ended the call without an answer");
  }
  finish(infer, std::move(status));
}

void ShardModel::answer(InferCall& infer, msg::Outputs&& outputs) {
  infer.posted = true;
  outputs.final = false;
  infer.call->credit.fetch_sub(1, std::memory_order_acq_rel);
  post(infer, {std::move(outputs)});
}

void ShardModel::finish(InferCall& infer, Status status) {
  const auto keep = std::move(*infer.at);
  calls_.erase(infer.at);
  msg::Call& call = *infer.call;
  const Time now = base::steady_now();
  call.times.computed = call.times.finished = now;
  const uint64_t took = nanoseconds(now - call.times.queued);
  if (!status.ok()) {
    stats_.add_failure(status.code, took);
    return post(infer, {msg::Failed{std::move(status)}});
  }
  stats_.success.add(took);
  stats_.queue.add(nanoseconds(call.times.started - call.times.queued));
  stats_.compute_input.add(0), stats_.compute_output.add(0);
  stats_.compute_infer.add(nanoseconds(now - call.times.started));
  stats_.inference_count.fetch_add(std::max(call.rows, 1u), std::memory_order_relaxed);
  stats_.execution_count.fetch_add(1, std::memory_order_relaxed);
  stats_.last_inference_ms.store(base::unix_ms(), std::memory_order_relaxed);
  msg::Outputs outputs;
  if (infer.answer) outputs = std::move(*infer.answer);
  outputs.final = true;
  post(infer, {std::move(outputs)});
}

void ShardModel::post(InferCall& infer, msg::Event&& event) {
  if (infer.came == Came::kHere)
    infer.call->home->post_here({infer.call, std::move(event)});
  else
    bus::post_one(infer.call, std::move(event));
}

void ShardModel::look() {
  for (auto next = calls_.begin(); next != calls_.end();) {
    InferCall& infer = **next++;
    if (infer.call->cancelled.load(std::memory_order_acquire)) {
      infer.cancel();
      finish(infer, client_left());
    } else {
      (void)infer.deliver();
    }
  }
}

void ShardModel::watch_time() {
  if (timer_ != base::TimerId::kNone || calls_.empty() || target_->options.answer_timeout.count() == 0) return;
  timer_ =
      shard_.env().at(shard_.env().now() + std::min<base::Duration>(kLook, target_->options.answer_timeout), [this] {
        timer_ = base::TimerId::kNone;
        end_late();
        watch_time();
      });
}

void ShardModel::end_late() {
  const Time now = shard_.env().now();
  for (auto next = calls_.begin(); next != calls_.end();) {
    InferCall& infer = **next++;
    if (!infer.waiting.empty() || now - infer.progress < target_->options.answer_timeout) continue;
    infer.give_up_late(failure(Code::kDeadlineExceeded,
                               "it has not answered within " + base::show_duration(target_->options.answer_timeout)));
  }
}

}  // namespace weir::forward
