#include "dialects/openai/task.h"

#include <utility>

#include "dialects/openai/keys.h"
#include "marshal/encoder.h"

namespace weir::openai {
namespace {

void go_on(OpenAiState& state, wire::Exchange& exchange, bus::Served& served, Task& task) {
  if (task.error.ok())
    task.then(state, exchange, served);
  else
    respond(exchange, task.error);
}

// Waits for the workers, in the place of the ExchangeListener to come.
class Waiting final : public wire::ExchangeListener, public msg::Sink {
 public:
  Waiting(OpenAiState& state, wire::Exchange& exchange, bus::Served& served)
      : state_(state), exchange_(exchange), served_(served) {}
  ~Waiting() override { leave(); }
  void on_close(wire::Exchange&, bool) override { leave(); }

  base::Status send(std::unique_ptr<Task> task, size_t bytes) {
    auto sent = state_.bus.send(std::move(task), bytes, served_, *this, exchange_.ticket(),
                                tenant(exchange_.request(), state_.keys));
    if (!sent) return std::move(sent).error();
    call_ = *sent;
    return {};
  }

 private:
  void on(msg::Call& call, msg::Event&& event) override {
    call_ = nullptr;
    if (auto* failed = std::get_if<msg::Failed>(&event.what)) return respond(exchange_, refuse(failed->status));
    auto task = state_.bus.take(call);
    go_on(state_, exchange_, served_, static_cast<Task&>(*task));  // another ExchangeListener takes the place of this
  }
  void leave() {
    if (auto* call = std::exchange(call_, nullptr)) state_.bus.abandon(call);
  }

  OpenAiState& state_;
  wire::Exchange& exchange_;
  bus::Served& served_;  // kept by the Call
  msg::Call* call_ = nullptr;
};

}  // namespace

void perform(OpenAiState& state, wire::Exchange& exchange, bus::Served& served, std::unique_ptr<Task> task,
             size_t bytes) {
  if (bytes <= bus::kShortText && task->run_briefly()) return go_on(state, exchange, served, *task);
  auto reader = std::make_unique<Waiting>(state, exchange, served);
  Waiting& waiting = *reader;
  exchange.attach(std::move(reader));
  if (base::Status status = waiting.send(std::move(task), bytes); !status.ok()) respond(exchange, refuse(status));
}

std::shared_ptr<const msg::TextSpec> held_tokens(const bus::Served& served) { return marshal::tokens_of(served.spec); }

PromptTask::PromptTask(Kind kind, Request request, const wire::Exchange& exchange, const bus::Served& served)
    : kind_(kind), request_(std::move(request)), body_(exchange.content()), spec_(held_tokens(served)) {}

void PromptTask::run() {
  make({.cancelled = cancelled()});
  if (error.ok()) made();
}

// A short request may still ask much of a model's template.
bool PromptTask::run_briefly() {
  make(text::kBrief);
  if (error.status.code == base::Code::kAborted) {
    error = {};
    prompts_.clear();
    return false;
  }
  if (error.ok()) made();
  return true;
}

void PromptTask::make(const text::Budget& budget) {
  if (!request_.messages.empty()) {
    error = make_chat(request_, *spec_, prompts_.emplace_back(), budget);
    return;
  }
  std::string_view param = kind_ == Kind::kEmbedding ? "input" : "prompt";
  for (const Prompt& prompt : request_.prompts)
    if (error.ok()) error = make_prompt(prompt, request_, *spec_, param, prompts_.emplace_back(), budget);
}

}  // namespace weir::openai
