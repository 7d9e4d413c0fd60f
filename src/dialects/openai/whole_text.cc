// The JSON of an answer in one piece, written choice by choice while the peer takes it: a hundred choices, with the log
// probabilities of all their tokens, would hold up the shard if they were written at once.
#include "dialects/openai/answer.h"
#include "marshal/json_tensor.h"

namespace weir::openai {

class Answer::WholeText final : public wire::TextSource {
 public:
  WholeText(Answer& answer, std::vector<const Choice*> chosen)
      : answer_(answer),
        chosen_(std::move(chosen)),
        head_(answer.make_head(answer.kind_ == Kind::kChat ? "chat.completion" : "text_completion")) {}

  bool write(std::string& out, size_t target) override {
    if (next_ == 0) out += "{" + head_ + ",\"choices\":[";
    for (; next_ < chosen_.size() && out.size() < target; ++next_) {
      if (next_ > 0) out += ',';
      write_choice(*chosen_[next_], out);
    }
    if (next_ < chosen_.size()) return true;
    write_rest(out);
    return false;
  }
  uint64_t held() const override { return answer_.held_for_answer(); }

 private:
  void write_choice(const Choice& choice, std::string& out) const {
    out += "{\"index\":" + std::to_string(next_);
    if (answer_.kind_ == Kind::kChat) {
      out += ",\"message\":{";
      choice.delta.write_message(out, choice.end.form);
      out += '}';
    } else {
      out += ",\"text\":";
      marshal::write_string(out, choice.delta.text);
    }
    out += ',';
    choice.delta.write_logprobs(out, answer_.kind_);
    out += ',';
    write_end(out, choice.end);
    if (answer_.kind_ == Kind::kCompletion) write_prompt(choice, out);
    choice.delta.write_extras(out);
    out += '}';
  }
  void write_rest(std::string& out) const {
    out += "],";
    write_usage(out, answer_.usage());
    // A chat has one prompt, which is written once for all choices.
    if (answer_.kind_ == Kind::kChat) write_prompt(answer_.choices_.front(), out);
    out += ",\"system_fingerprint\":";
    marshal::write_string(out, "weir-" + answer_.state_.options.server_version);
    out += '}';
  }
  void write_prompt(const Choice& choice, std::string& out) const {
    if (answer_.request_.prompt_logprobs) ((out += ",\"prompt_logprobs\":[") += choice.prompt_logprobs) += ']';
    if (answer_.request_.token_ids) (out += ",\"prompt_token_ids\":") += choice.prompt_ids;
  }

  Answer& answer_;
  const std::vector<const Choice*> chosen_;
  const std::string head_;
  size_t next_ = 0;
};

std::unique_ptr<wire::TextSource> Answer::whole_text(std::vector<const Choice*> chosen) {
  return std::make_unique<WholeText>(*this, std::move(chosen));
}

}  // namespace weir::openai
