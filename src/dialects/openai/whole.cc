// An answer in one piece of JSON, when every choice is over.
#include "base/stepped_charge.h"
#include "dialects/openai/answer.h"
#include "marshal/json_tensor.h"
#include "wire/answer_flow.h"

namespace weir::openai {
namespace {

using wire::Exchange;

class Whole final : public Answer {
 public:
  Whole(OpenAiState& state, Exchange& exchange, Kind kind, Request request)
      : Answer(state, exchange, kind, std::move(request)), gathered_(exchange.memory(), base::MemoryKind::kAnswers) {}

 private:
  // The gathered text is charged while it grows, and once more for the answer that is made of it.
  void grew(Choice& choice) override {
    const uint64_t holds = choice.delta.weight() + choice.prompt_logprobs.size();
    if (holds <= choice.charged) return;
    if (!gathered_.take(holds - choice.charged)) return fail(wire::no_room_for_answer());
    choice.charged = holds;
  }
  void ended(Choice&) override {}
  void failed(const base::Status& status) override { respond(exchange_, refuse(status)); }

  void over() override {
    if (!gathered_.take(gathered_.used())) return failed(wire::no_room_for_answer());
    make_head(kind_ == Kind::kChat ? "chat.completion" : "text_completion");
    std::string out = "{" + head() + ",\"choices\":[";
    for (const Choice& choice : choices_) {
      if (choice.index() > 0) out += ',';
      write(choice, out);
    }
    out += "],";
    write_usage(out, usage());
    // A chat has one prompt, which is written once for all choices.
    if (kind_ == Kind::kChat) write_prompt(choices_.front(), out);
    out += ",\"system_fingerprint\":";
    marshal::write_string(out, "weir-" + state_.options.server_version);
    out += "}";
    gathered_.give(gathered_.used());
    respond_json(exchange_, std::move(out));
  }

  void write(const Choice& choice, std::string& out) const {
    out += "{\"index\":" + std::to_string(choice.index());
    out += kind_ == Kind::kChat ? R"(,"message":{"role":"assistant","content":)" : ",\"text\":";
    marshal::write_string(out, choice.delta.text);
    if (kind_ == Kind::kChat) out += ",\"refusal\":null}";
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

  base::SteppedCharge gathered_;
};

}  // namespace

std::unique_ptr<Answer> whole(OpenAiState& state, Exchange& exchange, Kind kind, Request request) {
  return std::make_unique<Whole>(state, exchange, kind, std::move(request));
}

}  // namespace weir::openai
