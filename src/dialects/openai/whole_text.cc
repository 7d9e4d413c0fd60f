// The JSON of an answer in one piece, written choice by choice while the peer takes it: a hundred choices, with the log
// probabilities of all their tokens, would hold up the shard if they were written at once. So would one long choice,
// whose text, ids and log probabilities are given out where they lie.
#include "dialects/openai/answer.h"
#include "dialects/openai/pieces_text.h"
#include "marshal/json_tensor.h"

namespace weir::openai {

class Answer::WholeText {
 public:
  WholeText(Answer& answer, std::vector<const Choice*> chosen)
      : answer_(answer),
        chosen_(std::move(chosen)),
        head_(answer.make_head(answer.kind_ == Kind::kChat ? "chat.completion" : "text_completion")) {}

  // The choices, and what follows them.
  size_t pieces() const { return chosen_.size() + 1; }
  void write(size_t piece, SplicedText& out) const {
    if (piece == 0) out.own += "{" + head_ + ",\"choices\":[";
    if (piece == chosen_.size()) return write_rest(out);
    if (piece > 0) out.own += ',';
    write_choice(piece, out);
  }

 private:
  void write_choice(size_t index, SplicedText& out) const {
    const Choice& choice = *chosen_[index];
    out.own += "{\"index\":" + std::to_string(index);
    if (answer_.kind_ == Kind::kChat) {
      out.own += ",\"message\":{";
      choice.delta.write_message(out, choice.end.form);
      out.own += '}';
    } else {
      out.own += ",\"text\":";
      out.splice_string(choice.delta.text);
    }
    out.own += ',';
    choice.delta.write_logprobs(out, answer_.kind_);
    out.own += ',';
    write_end(out.own, choice.end);
    if (answer_.kind_ == Kind::kCompletion) write_prompt(choice, out);
    choice.delta.write_extras(out);
    out.own += '}';
  }
  void write_rest(SplicedText& out) const {
    out.own += "],";
    write_usage(out.own, answer_.usage());
    // A chat has one prompt, which is written once for all choices.
    if (answer_.kind_ == Kind::kChat) write_prompt(answer_.choices_.front(), out);
    if (answer_.request_.timings) llama_cpp::write_timings(out.own, answer_.exchange_, answer_.usage().figures());
    out.own += ",\"system_fingerprint\":";
    marshal::write_string(out.own, "weir-" + answer_.state_.options.server_version);
    out.own += '}';
  }
  void write_prompt(const Choice& choice, SplicedText& out) const {
    if (answer_.request_.prompt_logprobs) write_list(out, ",\"prompt_logprobs\":[", choice.prompt_logprobs);
    if (!choice.prompt_ids) return;
    out.own += ",\"prompt_token_ids\":";
    write_ids(out, *choice.prompt_ids);
  }

  Answer& answer_;
  std::vector<const Choice*> chosen_;
  std::string head_;
};

std::unique_ptr<wire::TextSource> Answer::whole_text(std::vector<const Choice*> chosen) {
  WholeText text(*this, std::move(chosen));
  const size_t pieces = text.pieces();
  return std::make_unique<PiecesText>(
      pieces, [text = std::move(text)](size_t piece, SplicedText& out) { text.write(piece, out); });
}

}  // namespace weir::openai
