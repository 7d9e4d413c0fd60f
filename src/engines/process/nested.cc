#include "engines/process/nested.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/attempt.h"
#include "base/clock.h"
#include "marshal/call_parameters.h"
#include "marshal/check.h"
#include "msg/credit.h"

namespace weir::process {
namespace {

using base::Code;
using base::failure;
using base::Status;

constexpr size_t kMostNested = 256;  // at once

}  // namespace

base::Result<bool> Nested::handle(const Message& message, uint32_t hops) {
  Status status;
  switch (message.type) {
    case Type::kExec: status = begin(message, hops); break;
    case Type::kTook:
    case Type::kForget: status = took(message); break;
    default: return false;
  }
  if (!status.ok()) return status;
  return true;
}

// A call that is over may be spoken of for a while: the child does not know yet.
Status Nested::took(const Message& message) {
  auto open = std::find_if(open_.begin(), open_.end(), [&](const Open& o) { return o.number == message.number; });
  if (open == open_.end()) return {};
  if (message.type == Type::kForget) {
    ((message.flags & kMany) ? open->cancelled : open->forgotten) = true;
    cancel_call(*open);
    return {};
  }
  auto& ahead = open->ahead;
  if (message.size > ahead.size()) return failure(Code::kInternal, "a model has read answers that it was not given");
  const auto read = ahead.begin() + ptrdiff_t(message.size);
  open->call.credit.fetch_add(std::accumulate(ahead.begin(), read, 0), std::memory_order_acq_rel);
  ahead.erase(ahead.begin(), read);
  open->target.inbox->poke();
  return {};
}

void Nested::cancel_call(Open& open) {
  open.call.cancelled.store(true, std::memory_order_release);
  open.target.inbox->poke();
}

Status Nested::begin(const Message& message, uint32_t hops) {
  auto read = host_.read_call(message);
  Status unread = read ? Status() : std::move(read).error();
  if (!unread.ok() && unread.code != Code::kResourceExhausted) return unread;
  if (Status s = host_.child().send({.type = Type::kTaken}); !s.ok()) return s;
  if (!unread.ok()) return host_.send_reply(message.number, AnswerKind::kError, {}, unread);
  auto& open = open_.emplace_back();
  open.number = message.number, open.many = (message.flags & kMany) != 0;
  open.call.model = std::move(read->model), open.call.version = std::move(read->version);
  open.call.id = std::move(read->id), open.call.parameters = std::move(read->parameters);
  open.call.outputs = std::move(read->outputs), open.call.inputs = std::move(read->inputs);
  if (hops > 0) open.call.trace = std::make_shared<msg::TraceFields>(msg::TraceFields{{}, {}, hops});
  Status status = lend(open);
  if (status.ok()) return {};
  Status sent = reply(open, {msg::Failed{std::move(status)}});
  open_.pop_back();
  return sent;
}

Status Nested::lend(Open& open) {
  if (!find_) return failure(Code::kUnimplemented, "models cannot make requests here");
  if (open_.size() > kMostNested)
    return failure(Code::kResourceExhausted,
                   "a model makes " + std::to_string(kMostNested) + " requests at once at most");
  auto found = find_(open.call.model, open.call.version);
  if (!found) return std::move(found).error();
  open.target = std::move(*found);
  const auto& spec = *open.target.spec;
  if (spec.text || (spec.decoupled && !open.many))
    return failure(Code::kUnimplemented, "model '" + spec.name + "' is " + (spec.text ? "of text" : "decoupled") +
                                             ": models make requests to models of tensors that answer once");
  for (const auto& [name, value] : open.call.parameters)
    if (Status s = marshal::apply_to_call(open.call, name, value); !s.ok()) return s;
  if (Status s = marshal::check_call(spec, open.call); !s.ok()) return s;
  if (open.many) open.call.credit.store(int32_t(kWindow), std::memory_order_relaxed);
  open.call.home = this;
  open.call.times.received = open.call.times.queued = base::steady_now();
  return base::attempt("a model's request", [&] { open.target.inbox->put(&open.call); });
}

void Nested::post(std::vector<msg::Mail>& burst) {
  std::lock_guard lock(mutex_);
  for (auto& mail : burst) mail_.push_back(std::move(mail));
  burst.clear();
  const uint64_t one = 1;
  (void)!::write(wake_, &one, sizeof one);
  changed_.notify_all();
}

void Nested::post_here(msg::Mail&& mail) {
  std::vector<msg::Mail> burst;
  burst.push_back(std::move(mail));
  post(burst);
}

std::vector<msg::Mail> Nested::take() {
  std::lock_guard lock(mutex_);
  return std::exchange(mail_, {});
}

Status Nested::answer() {
  Status first;
  for (auto& mail : take()) {
    auto open = open_.begin();
    while (&open->call != mail.call) ++open;
    const bool last = mail.event.last();
    if (first.ok() && !open->forgotten && (last || open->many)) first = reply(*open, std::move(mail.event));
    if (last) open_.erase(open);
  }
  return first;
}

Status Nested::reply(Open& open, msg::Event&& event) {
  auto kind = AnswerKind::kTensors;
  const int32_t cost = msg::credit_of(event);
  if (auto* outputs = std::get_if<msg::Outputs>(&event.what)) {
    if (open.many && outputs->final)
      kind = outputs->tensors.empty() ? AnswerKind::kEnd : AnswerKind::kTensorsAndEnd;
    else
      open.ahead.push_back(cost);
    Status sent = host_.send_reply(open.number, kind, *outputs, {});
    if (sent.code != Code::kResourceExhausted) return sent;
    open.forgotten = true;  // for the child an error is the last answer
    cancel_call(open);
    return host_.send_reply(open.number, kind, {}, sent);
  }
  auto* failed = std::get_if<msg::Failed>(&event.what);
  Status status = failed ? std::move(failed->status) : failure(Code::kInternal, "no answer");
  if (open.cancelled && status.code == Code::kCancelled) status.text = "the model has cancelled its request";
  return host_.send_reply(open.number, kind, {}, status);
}

void Nested::cancel() {
  for (auto& open : open_) cancel_call(open);
  while (!open_.empty()) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !mail_.empty(); });
    }
    for (auto& mail : take())
      if (mail.event.last()) open_.remove_if([&](const Open& open) { return &open.call == mail.call; });
  }
}

}  // namespace weir::process
