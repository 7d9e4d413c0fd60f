#include "engines/forward/openai/questions.h"

#include <utility>

#include "engines/forward/openai/chat_text.h"
#include "engines/forward/openai/model_question.h"

namespace weir::forward {
namespace {

using base::Result;

using Thinking = msg::TextSpec::RemoteChat::Thinking;

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
      : conn_(conn), options_(options), text_(std::move(text)), question_(shard, conn, options) {}

  void ask_ready(base::Duration timeout, OnReady then) override;
  void ask_signature(const msg::ModelSpec& wanted, base::Duration timeout, OnSignature then) override;

 private:
  Result<msg::ModelSpec> signature(const ListedModel& listed, msg::ModelSpec wanted) const;

  OriginConn& conn_;
  const Options& options_;
  const std::shared_ptr<const msg::TextSpec> text_;
  ModelQuestion question_;
};

void OpenaiQuestions::ask_ready(base::Duration timeout, OnReady then) {
  question_.ask(timeout, timeout, [then = std::move(then)](Result<ListedModel> listed) {
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
    text->remote_chat = msg::TextSpec::RemoteChat{options_.thinking.value_or(thinking_of(listed.owner))};
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
  timeout += options_.connect_timeout;
  question_.ask(timeout, timeout, [this, wanted, then = std::move(then)](Result<ListedModel> listed) {
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
