#include "dialects/openai/task.h"

#include <algorithm>
#include <utility>

#include "bus/offload_handle.h"
#include "dialects/openai/fill_in.h"
#include "dialects/openai/functions.h"
#include "dialects/openai/tools.h"
#include "marshal/encoder.h"
#include "marshal/tenant.h"
#include "wire/body_memory.h"

namespace weir::openai {
namespace {

void go_on(OpenAiState& state, wire::Exchange& exchange, bus::Served& served, Task& task) {
  if (task.error.ok())
    task.then(state, exchange, served);
  else
    respond(exchange, task.error);
}

// Waits for the workers, until the next ExchangeListener takes its place.
class Waiting final : public wire::ExchangeListener, bus::OffloadListener {
 public:
  Waiting(OpenAiState& state, wire::Exchange& exchange, bus::Served& served)
      : state_(state), exchange_(exchange), served_(served), sent_(state.bus, *this) {}
  void on_close(wire::Exchange&, bool) override { sent_.abandon(); }

  base::Status send(std::unique_ptr<bus::OffloadTask> task, size_t bytes, bus::Admission admission) {
    bytes_ = bytes;
    return sent_.send(std::move(task), bytes, served_, exchange_.ticket(), marshal::tenant_of(exchange_.request()),
                      admission);
  }

 private:
  void on_task(base::Status status, std::unique_ptr<bus::OffloadTask> task) override {
    if (!status.ok()) return respond(exchange_, refuse(std::move(status)));
    auto& has_run = static_cast<Task&>(*task);
    if (!has_run.goes_on()) return go_on(state_, exchange_, served_, has_run);  // may destroy this
    if (status = send(std::move(task), bytes_, bus::Admission::kGranted); !status.ok())
      respond(exchange_, refuse(std::move(status)));
  }

  OpenAiState& state_;
  wire::Exchange& exchange_;
  bus::Served& served_;  // the task keeps it alive
  bus::OffloadHandle sent_;
  size_t bytes_ = 0;  // of the task
};

}  // namespace

void perform(OpenAiState& state, wire::Exchange& exchange, bus::Served& served, std::unique_ptr<Task> task,
             size_t bytes) {
  if (bytes <= bus::kShortText && task->run_briefly()) return go_on(state, exchange, served, *task);
  const wire::PeerInfo* peer = exchange.request().peer;
  base::ClientRef client = peer ? peer->client : base::ClientRef();
  const auto owner = wire::owner_of_heads(state.options.bodies, client.get());
  task->rendering.begin(bytes, exchange.memory(), std::move(client), owner);
  auto reader = std::make_unique<Waiting>(state, exchange, served);
  Waiting& waiting = *reader;
  exchange.attach(std::move(reader));
  if (base::Status status = waiting.send(std::move(task), bytes, bus::Admission::kAsked); !status.ok())
    respond(exchange, refuse(status));
}

size_t prompt_bytes(const wire::Exchange& exchange, const Request& request) {
  return std::max(exchange.content().size(), request.translated.size()) + request.earlier.size();
}

std::shared_ptr<const msg::TextSpec> held_tokens(const bus::Served& served) { return marshal::tokens_of(served.spec); }

PromptTask::PromptTask(Kind kind, Request request, const wire::Exchange& exchange, const bus::Served& served)
    : kind_(kind), request_(std::move(request)), body_(exchange.content()), spec_(held_tokens(served)) {}

void PromptTask::run() {
  if (stage_ == Stage::kForm)
    compile();
  else if (!makes_prompts())
    return;
  stage_ = Stage::kDone;
  if (error.ok()) made();
}

// False: there is another turn to come.
bool PromptTask::makes_prompts() {
  make(request_.messages.empty() ? msg::TextBudget{.cancelled = cancelled()} : rendering.next(cancelled()));
  if (rendering.needs_more(error.status)) {
    error = {};
    prompts_.clear();
    return false;
  }
  if (!error.ok() || !needs_form()) return true;
  stage_ = Stage::kForm;
  return false;
}

uint64_t PromptTask::extra_work() const {
  if (stage_ == Stage::kForm) return base::kCompileWork;
  return stage_ == Stage::kPrompts ? rendering.extra_work() : 0;
}

bool PromptTask::needs_form() {
  const auto& form = request_.params.structured;
  if (form && !request_.grammar) request_.grammar = spec_->codec->find_compiled(*form);
  return form && !request_.grammar;
}

// A short request may still ask much of a model's template.
bool PromptTask::run_briefly() {
  make(msg::kBriefText);
  if (error.status.code == base::Code::kAborted) {
    error = {};
    prompts_.clear();
    return false;
  }
  if (error.ok() && needs_form()) {
    stage_ = Stage::kForm;
    return false;
  }
  stage_ = Stage::kDone;
  if (error.ok()) made();
  return true;
}

// The form of the answer, which depends on how the prompt ends; before anything is generated.
void PromptTask::compile() {
  const msg::StructuredOutput& form = *request_.params.structured;
  auto compiled = spec_->codec->compile(form, cancelled());
  if (compiled)
    request_.grammar = *std::move(compiled);
  else
    error = in_names(request_.names, {compiled.error(), std::string(form.param), {}});
}

void PromptTask::make(const msg::TextBudget& budget) {
  make_prompts(budget);
  if (error.ok() && kind_ == Kind::kChat) error = in_function_names(request_, settle_tools(request_, *spec_));
  if (error.ok()) error = make_filter(request_, *spec_);
  if (error.ok()) error = settle_biases(request_, *spec_);
  if (!error.ok()) error = in_names(request_.names, std::move(error));
}

void PromptTask::make_prompts(const msg::TextBudget& budget) {
  if (!request_.messages.empty()) {
    error = make_chat(request_, *spec_, prompts_.emplace_back(), budget);
    return;
  }
  std::string_view param = kind_ == Kind::kEmbedding ? "input" : "prompt";
  const bool fills = request_.infill.asked || !request_.suffix.empty();
  if (fills && spec_->codec && !request_.params.ignore_eos) add_fill_ends(*spec_, request_.params.stop_ids);
  for (const Prompt& prompt : request_.prompts)
    if (error.ok()) error = make_prompt(prompt, request_, *spec_, param, prompts_.emplace_back(), budget);
}

}  // namespace weir::openai
