#include "engines/forward/openai/kind.h"

#include <algorithm>
#include <utility>

#include "engines/forward/openai/chat_text.h"
#include "engines/forward/openai/completion_attempt.h"
#include "engines/forward/openai/embedding_attempt.h"
#include "engines/forward/openai/questions.h"
#include "engines/forward/tokenizer_files.h"
#include "generation/fit.h"

namespace weir::forward {
namespace {

using base::Code;
using base::failure;
using base::Result;
using base::Status;

constexpr generation::TokenRoom kAnyRoom{.blocks = 1 << 30, .block_size = 1};  // its keys and values are the origin's

Status cannot(std::string_view what) {
  return failure(Code::kUnimplemented, std::string(what) + " cannot be had of a forwarded model");
}

// Origins have words for it: calls of tools and thoughts are written as the model's template has them, known here
// alone.
bool tells(const msg::StructuredOutput* form) {
  using Form = msg::StructuredOutput;
  return form && form->kind != Form::Kind::kToolCalls && form->thoughts == Form::Thoughts::kNone;
}

class Openai final : public Kind {
 public:
  Openai(std::shared_ptr<const msg::TextSpec> text, OpenaiApi api) : text_(std::move(text)), api_(api) {}

  net::ClientConn::Http http() const override { return net::ClientConn::Http::k1; }
  std::unique_ptr<Attempt> make_attempt(const Asked& asked, Attempt::Receiver& receiver) const override {
    return asked.call.generation->aim == msg::Aim::kEmbed ? make_embedding_attempt(asked, receiver)
                                                          : make_completion_attempt(asked, receiver);
  }
  std::unique_ptr<Questions> make_questions(net::Shard& shard, OriginConn& conn,
                                            const Options& options) const override {
    return make_openai_questions(shard, conn, options, text_);
  }
  Status fits(const msg::Call& call, const msg::ModelSpec& spec) const override;
  // A form begins with the text, and no origin can be told that it has begun.
  // Nor can an answer of a chat go on.
  bool can_move(const msg::Call& call) const override {
    return api_ == OpenaiApi::kCompletions && !call.generation->constraint;
  }

 private:
  Status fits_chat(const msg::Generation& params) const;

  const std::shared_ptr<const msg::TextSpec> text_;
  const OpenaiApi api_;
};

// Tokens are the origin's own, and it is not known which.
Status Openai::fits_chat(const msg::Generation& params) const {
  if (params.aim == msg::Aim::kEmbed) return cannot("an embedding (its origins have chats alone, api: chat)");
  if (!params.sampling.logit_bias.empty() || !params.stop_ids.empty())
    return cannot("a token of its own (logit_bias, stop_token_ids; its origins have chats alone, api: chat)");
  return {};
}

Status Openai::fits(const msg::Call& call, const msg::ModelSpec& spec) const {
  if (auto status = generation::fits_tokens(call, spec, kAnyRoom); !status.ok()) return status;
  const msg::Generation& params = *call.generation;
  if (params.aim == msg::Aim::kRelease) return {};
  if (api_ == OpenaiApi::kChat)
    if (Status status = fits_chat(params); !status.ok()) return status;
  if (params.aim == msg::Aim::kEmbed)
    return spec.text->hidden_size > 0 ? Status() : cannot("an embedding without parameter 'embedding_size'");
  if (params.constraint && !tells(params.constraint->form()))
    return cannot("this form of the answer (calls of tools, and forms behind thoughts)");
  if (!params.readouts.empty()) return cannot("a readout");
  const bool of_prompt = std::any_of(params.logprobs.begin(), params.logprobs.end(),
                                     [&](const auto& range) { return range.start < params.length(); });
  if (of_prompt) return cannot("a log-probability of the prompt");
  if (params.max_tokens == 0) return cannot("an answer without tokens");
  return {};
}

}  // namespace

Result<std::shared_ptr<const Kind>> make_openai(const Options& options, const std::string& folder) {
  if (options.api == OpenaiApi::kChat) {
    auto text = make_chat_text();
    if (!text) return text.error();
    return std::make_shared<Openai>(*std::move(text), options.api);
  }
  if (options.tokenizer.empty() && folder.empty())
    return base::invalid("parameter 'tokenizer' is missing: it names the folder of the model's tokenizer.json");
  auto text = read_tokenizer(options, folder);
  if (!text) return text.error();
  return std::make_shared<Openai>(*std::move(text), options.api);
}

}  // namespace weir::forward
