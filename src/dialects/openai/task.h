// Task: what a request costs before a model is asked, or instead of it: prompts become tokens, tokens become text.
// Short ones are done at once; long ones by the bus's workers (bus/offload_task.h), so that nobody else on the shard
// waits.
#pragma once

#include <memory>
#include <vector>

#include "bus/offload_task.h"
#include "dialects/openai/prompt.h"
#include "dialects/openai/request.h"
#include "dialects/openai/state.h"

namespace weir::openai {

class Task : public bus::OffloadTask {
 public:
  ApiError error;  // of run(); then() is not called after one

  // On the shard, when it has run. The version is still there.
  virtual void then(OpenAiState& state, wire::Exchange& exchange, bus::Served& served) = 0;
};

// Runs the task, here or elsewhere, then answers with its refusal or goes on with then(). `bytes`: of the text that it
// works on. The Exchange's ExchangeListener may be another one from here on.
void perform(OpenAiState& state, wire::Exchange& exchange, bus::Served& served, std::unique_ptr<Task> task,
             size_t bytes);

// tokens_of(), to be kept by a task.
std::shared_ptr<const msg::TextSpec> held_tokens(const bus::Served& served);

// The prompts of any request: ids, images, texts to echo.
class PromptTask : public Task {
 public:
  PromptTask(Kind kind, Request request, const wire::Exchange& exchange, const bus::Served& served);
  void run() final;
  bool run_briefly() final;

 protected:
  // Goes on with the prompts, where they were.
  virtual void made() {}

  const Kind kind_;
  Request request_;
  const base::Bytes body_;  // which the request points into
  const std::shared_ptr<const msg::TextSpec> spec_;
  std::vector<Sequence> prompts_;

 private:
  void make(const msg::TextBudget& budget);
  void make_prompts(const msg::TextBudget& budget);
  void compile();
};

}  // namespace weir::openai
