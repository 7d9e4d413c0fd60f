#include "engines/process/nested.h"

#include <unistd.h>

#include <cstring>
#include <utility>

#include "base/attempt.h"
#include "base/clock.h"
#include "marshal/check.h"

namespace weir::process {
namespace {

using base::Code;
using base::Status;

constexpr size_t kMostNested = 256;  // at once

}  // namespace

Status Nested::begin(const Message& message) {
  auto read = host_.read_call(message);
  if (!read) return std::move(read).error();
  if (Status s = host_.child().send({.type = Type::kTaken}); !s.ok()) return s;
  auto& open = open_.emplace_back();
  open.number = message.number;
  open.call.model = std::move(read->model), open.call.version = std::move(read->version);
  open.call.id = std::move(read->id), open.call.parameters = std::move(read->parameters);
  open.call.outputs = std::move(read->outputs), open.call.inputs = std::move(read->inputs);
  Status status = lend(open);
  if (status.ok()) return {};
  open_.pop_back();
  return reply(message.number, {msg::Failed{std::move(status)}});
}

Status Nested::lend(Open& open) {
  if (!find_) return base::failure(Code::kUnimplemented, "models cannot make requests here");
  if (open_.size() > kMostNested)
    return base::failure(Code::kResourceExhausted,
                         "a model makes " + std::to_string(kMostNested) + " requests at once at most");
  auto found = find_(open.call.model, open.call.version);
  if (!found) return std::move(found).error();
  open.target = std::move(*found);
  const auto& spec = *open.target.spec;
  if (spec.text || spec.decoupled)
    return base::failure(Code::kUnimplemented, "model '" + spec.name + "' is " + (spec.text ? "of text" : "decoupled") +
                                                   ": models make requests to models of tensors that answer once");
  if (Status s = marshal::check_call(spec, open.call); !s.ok()) return s;
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
    if (!mail.event.last()) continue;
    auto open = open_.begin();
    while (&open->call != mail.call) ++open;
    const uint64_t number = open->number;
    open_.erase(open);
    Status status = first.ok() ? reply(number, std::move(mail.event)) : Status();
    if (first.ok()) first = std::move(status);
  }
  return first;
}

Status Nested::reply(uint64_t number, msg::Event&& event) {
  auto* outputs = std::get_if<msg::Outputs>(&event.what);
  auto* failed = std::get_if<msg::Failed>(&event.what);
  if (outputs) return host_.send_reply(number, *outputs, {});
  return host_.send_reply(number, {}, failed ? failed->status : base::failure(Code::kInternal, "no answer"));
}

void Nested::cancel() {
  for (auto& open : open_) open.call.cancelled.store(true, std::memory_order_release), open.target.inbox->poke();
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
