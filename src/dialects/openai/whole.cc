// An answer in one piece of JSON, when every choice is over.
#include <algorithm>

#include "dialects/openai/answer.h"
#include "marshal/json_tensor.h"
#include "wire/answer_flow.h"

namespace weir::openai {
namespace {

using wire::Exchange;

class Whole final : public Answer {
 public:
  using Answer::Answer;

 private:
  void grew(Choice& choice) override {
    if (!charge(choice)) fail(wire::no_room_for_answer());
  }
  void ended(Choice& choice) override { choice.drop_cut_call(); }
  void failed(const base::Status& status) override { respond(exchange_, refuse(status)); }

  void over() override {
    if (!charge_written()) return failed(wire::no_room_for_answer());
    make_head(kind_ == Kind::kChat ? "chat.completion" : "text_completion");
    std::string out = "{" + head() + ",\"choices\":[";
    size_t index = 0;
    for (const Choice* choice : chosen()) {
      if (index > 0) out += ',';
      write(*choice, index++, out);
    }
    out += "],";
    write_usage(out, usage());
    // A chat has one prompt, which is written once for all choices.
    if (kind_ == Kind::kChat) write_prompt(choices_.front(), out);
    out += ",\"system_fingerprint\":";
    marshal::write_string(out, "weir-" + state_.options.server_version);
    out += "}";
    finish_written(std::move(out));
  }

  // Those that are answered: of each prompt's the likeliest, where there are more (best_of).
  std::vector<const Choice*> chosen() const {
    std::vector<const Choice*> all, out;
    for (const Choice& choice : choices_) all.push_back(&choice);
    if (request_.best_of <= request_.n) return all;
    for (auto one = all.begin(); one != all.end(); one += request_.best_of) {
      std::stable_sort(one, one + request_.best_of,
                       [](const Choice* a, const Choice* b) { return a->mean_logprob() > b->mean_logprob(); });
      out.insert(out.end(), one, one + request_.n);
    }
    return out;
  }

  void write(const Choice& choice, size_t index, std::string& out) const {
    out += "{\"index\":" + std::to_string(index);
    if (kind_ == Kind::kChat) {
      out += ",\"message\":{";
      choice.delta.write_message(out, choice.end.form);
      out += '}';
    } else {
      out += ",\"text\":";
      marshal::write_string(out, choice.delta.text);
    }
    out += ',';
    choice.delta.write_logprobs(out, kind_);
    out += ',';
    write_end(out, choice.end);
    if (kind_ == Kind::kCompletion) write_prompt(choice, out);
    choice.delta.write_extras(out);
    out += '}';
  }

  void write_prompt(const Choice& choice, std::string& out) const {
    if (request_.prompt_logprobs) out += ",\"prompt_logprobs\":[" + choice.prompt_logprobs + "]";
    if (request_.token_ids) out += ",\"prompt_token_ids\":" + choice.prompt_ids;
  }
};

}  // namespace

std::unique_ptr<Answer> whole(OpenAiState& state, Exchange& exchange, Kind kind, Request request) {
  return std::make_unique<Whole>(state, exchange, kind, std::move(request));
}

}  // namespace weir::openai
