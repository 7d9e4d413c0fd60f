#include "engines/forward/openai/questions.h"

#include <utility>

#include "engines/forward/get.h"
#include "engines/forward/openai/api_path.h"
#include "engines/forward/openai/chat_text.h"
#include "engines/forward/openai/message.h"
#include "engines/forward/refusal.h"

namespace weir::forward {
namespace {

using base::Code;
using base::failure;
using base::Result;
using base::Status;

using Thinking = msg::TextSpec::Elsewhere::Thinking;

constexpr uint32_t kLongestChat = 1 << 20;  // bytes; how many tokens it takes is for the origin to say

// By the word with which servers say what they are.
Thinking thinking_of(std::string_view owner) {
  for (std::string_view known : {"vllm", "sglang", "llamacpp", "weir"})
    if (owner == known) return Thinking::kVariables;
  return owner == "library" ? Thinking::kEffort : Thinking::kUntold;
}

class OpenaiQuestions final : public Questions {
 public:
  OpenaiQuestions(net::Shard& shard, OriginConn& conn, const Options& options,
                  std::shared_ptr<const msg::TextSpec> text)
      : conn_(conn), options_(options), text_(std::move(text)), get_(shard, conn) {}

  void ask_ready(base::Duration timeout, OnReady then) override;
  void ask_signature(const msg::ModelSpec& wanted, base::Duration timeout, OnSignature then) override;

 private:
  using OnListed = std::function<void(Result<ListedModel>)>;
  void ask(base::Duration timeout, OnListed then);
  void heard_health(Result<Get::Answer> answer);
  void ask_models();
  void heard_models(Result<Get::Answer> answer);
  Result<msg::ModelSpec> signature(const ListedModel& listed, msg::ModelSpec wanted) const;
  void tell(Result<ListedModel> listed) { std::exchange(then_, nullptr)(std::move(listed)); }
  void tell(Status status) {
    status.text = "origin " + conn_.origin().name() + ": " + status.text;
    tell(Result<ListedModel>(std::move(status)));
  }

  OriginConn& conn_;
  const Options& options_;
  const std::shared_ptr<const msg::TextSpec> text_;
  Get get_;
  base::Duration timeout_{0};
  OnListed then_;
};

void OpenaiQuestions::ask(base::Duration timeout, OnListed then) {
  timeout_ = timeout;
  then_ = std::move(then);
  if (has_base_path(conn_.origin().url())) return ask_models();  // what else is there is another service's
  get_.ask("/health", timeout, [this](Result<Get::Answer> answer) { heard_health(std::move(answer)); });
}

// A server without /health is asked for its models alone.
void OpenaiQuestions::heard_health(Result<Get::Answer> answer) {
  if (!answer) return tell(answer.error());
  const int status = answer->status;
  if (status != 200 && status != 404 && status != 405)
    return tell(failure(Code::kUnavailable, "/health answered with HTTP status " + std::to_string(status)));
  ask_models();
}

void OpenaiQuestions::ask_models() {
  get_.ask(api_path(conn_.origin().url(), "/models"), timeout_,
           [this](Result<Get::Answer> models) { heard_models(std::move(models)); });
}

void OpenaiQuestions::heard_models(Result<Get::Answer> answer) {
  if (!answer) return tell(answer.error());
  const bool unlisted = options_.api == OpenaiApi::kChat && (answer->status == 404 || answer->status == 405);
  if (unlisted) return tell(ListedModel{.found = true, .others = {}});  // it lists none, and may have it
  if (answer->status != 200) {
    Status status = error_of(answer->status, answer->body, {});
    return tell(failure(Code::kUnavailable, api_path(conn_.origin().url(), "/models") + ": " + status.text));
  }
  auto listed = read_models(answer->body, options_.model);
  if (!listed) return tell(listed.error());
  // Azure lists the models that its deployments are of, which have names of their own.
  listed->found = listed->found || is_azure(conn_.origin().url());
  if (!listed->found)
    return tell(failure(Code::kUnavailable, "it has no model '" + options_.model + "'" +
                                                (listed->others.empty() ? "" : "; it has " + listed->others)));
  tell(std::move(listed));
}

void OpenaiQuestions::ask_ready(base::Duration timeout, OnReady then) {
  ask(timeout, [then = std::move(then)](Result<ListedModel> listed) {
    if (!listed) return then(listed.error());
    then(true);
  });
}

Result<msg::ModelSpec> OpenaiQuestions::signature(const ListedModel& listed, msg::ModelSpec wanted) const {
  auto text = std::make_shared<msg::TextSpec>(*text_);
  text->max_length = options_.max_length > 0 ? options_.max_length : listed.max_length;
  text->hidden_size = options_.embedding_size > 0 ? options_.embedding_size : listed.embedding_size;
  if (options_.api == OpenaiApi::kChat) {
    if (options_.max_length == 0) text->max_length = kLongestChat;
    if (options_.vision.value_or(listed.images)) text->vision = chat_vision();
    text->chats_elsewhere = msg::TextSpec::Elsewhere{options_.thinking.value_or(thinking_of(listed.owner))};
  }
  if (text->max_length == 0)
    return base::invalid("parameter 'max_length' is missing: origin " + conn_.origin().name() +
                         " does not say how long its context is");
  wanted.text = std::move(text);
  wanted.max_batch = 0;
  if (wanted.platform.empty()) wanted.platform = "openai";
  return wanted;
}

void OpenaiQuestions::ask_signature(const msg::ModelSpec& wanted, base::Duration timeout, OnSignature then) {
  ask(timeout + options_.connect_timeout, [this, wanted, then = std::move(then)](Result<ListedModel> listed) {
    if (!listed) return then(listed.error());
    then(signature(*listed, wanted));
  });
}

}  // namespace

std::unique_ptr<Questions> make_openai_questions(net::Shard& shard, OriginConn& conn, const Options& options,
                                                 std::shared_ptr<const msg::TextSpec> text) {
  return std::make_unique<OpenaiQuestions>(shard, conn, options, std::move(text));
}

}  // namespace weir::forward
