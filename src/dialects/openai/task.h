// Task: what a request costs before a model is asked, or instead of it: prompts become tokens, tokens become text.
// Short ones are done at once; long ones by the bus's workers (bus/offload_task.h), so that nobody else on the shard
// waits.
#pragma once

#include <memory>
#include <vector>

#include "base/extra_work.h"
#include "bus/offload_task.h"
#include "dialects/openai/prompt.h"
#include "dialects/openai/request.h"
#include "dialects/openai/state.h"
#include "text/rendering_budget.h"

namespace weir::openai {

class Task : public bus::OffloadTask {
 public:
  ApiError error;                   // of run(); then() is not called after one
  text::RenderingBudget rendering;  // of a worker, where it renders a template

  // Behind run(): what is left is much, and waits for its own turn at the workers, which run() it once more.
  virtual bool goes_on() const { return false; }

  // On the shard, when it has run. The version is still there.
  virtual void then(OpenAiState& state, wire::Exchange& exchange, bus::Served& served) = 0;
};

// Runs the task, here or elsewhere, then answers with its refusal or goes on with then(). `bytes`: of the text that it
// works on. The Exchange's ExchangeListener may be another one from here on.
void perform(OpenAiState& state, wire::Exchange& exchange, bus::Served& served, std::unique_ptr<Task> task,
             size_t bytes);

// The length of the texts that a prompt is made of. A short body may stand for long ones: items of a conversation, or
// of other responses.
size_t prompt_bytes(const wire::Exchange& exchange, const Request& request);

// tokens_of(), to be kept by a task.
std::shared_ptr<const msg::TextSpec> held_tokens(const bus::Served& served);

// The prompts of any request: ids, images, texts to echo; then the form of its answer, which depends on them.
class PromptTask : public Task, public base::ExtraWork {
 public:
  PromptTask(Kind kind, Request request, const wire::Exchange& exchange, const bus::Served& served);
  void run() final;
  bool run_briefly() final;
  bool goes_on() const final { return error.ok() && stage_ != Stage::kDone; }

 protected:
  // Goes on with the prompts, where they were.
  virtual void made() {}

  const Kind kind_;
  Request request_;
  const base::Bytes body_;  // which the request points into
  const std::shared_ptr<const msg::TextSpec> spec_;
  std::vector<Sequence> prompts_;

 private:
  enum class Stage : uint8_t { kPrompts, kForm, kDone };  // what is to be done next, after run()

  uint64_t extra_work() const final;
  bool needs_form();
  bool makes_prompts();
  void make(const msg::TextBudget& budget);
  void make_prompts(const msg::TextBudget& budget);
  void compile();

  Stage stage_ = Stage::kPrompts;
};

}  // namespace weir::openai
