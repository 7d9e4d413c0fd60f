// Answers in Ollama's form: {"model","created_at","message":{"role","content"},"done":false} for each piece of text,
// and a last one with done, done_reason, counts and times in nanoseconds. /api/generate has "response" for "message".
// "logprobs" are those of a chat of OpenAI's, without the object around them. Thoughts are "thinking" beside either; a
// message's "tool_calls" come when each is whole: a call whose arguments are no JSON object, because the answer was
// cut, is left out.
#include <algorithm>
#include <utility>

#include "base/utc_time.h"
#include "dialects/openai/ollama/ollama.h"
#include "dialects/openai/pieces_text.h"
#include "marshal/json_tensor.h"
#include "wire/answer_flow.h"
#include "wire/sse.h"

namespace weir::openai::ollama {
namespace {

using wire::Exchange;

enum class Shape : uint8_t { kMessage, kResponse };

class OllamaAnswer final : public Answer {
 public:
  OllamaAnswer(OpenAiState& state, Exchange& exchange, Kind kind, Request request, Shape shape)
      : Answer(state, exchange, kind, std::move(request)), shape_(shape) {}

 private:
  void grew(Choice& choice) override {
    if (!request_.stream) {
      if (!charge(choice)) fail(wire::no_room_for_answer());
      return;
    }
    open();
    if (!take_ids(choice)) return fail(wire::no_room_for_answer());
    std::vector<CallDelta> whole = take_calls(choice.delta);
    if (!choice.delta.empty() || !whole.empty()) {
      SplicedText line;
      write_said(line, choice.delta, whole);
      line.own += ",\"done\":false}\n";
      send(line);
    }
    choice.delta.clear();
  }
  void ended(Choice&) override {}

  void over() override {
    Choice& choice = choices_.front();
    last_calls_ = take_calls(choice.delta);
    if (!open_call_.name.empty()) last_calls_.push_back(std::move(open_call_));
    if (!request_.stream)
      return finish_text(std::make_unique<PiecesText>(1, [this](size_t, SplicedText& out) { write_last(out); }));
    if (!take_ids(choice)) return failed(wire::no_room_for_answer());
    open();
    SplicedText line;
    write_last(line);
    line.own += '\n';
    send(line);
    exchange_.end();
  }
  void let_go() override {
    last_calls_.clear();
    Answer::let_go();
  }

  void failed(const base::Status& status) override {
    if (!exchange_.responding()) return respond(exchange_, refuse(status));
    exchange_.record().set_outcome(status);
    SplicedText line;
    line.own = "{\"error\":";
    line.splice_string(status.text);
    line.own += "}\n";
    send(line);
    exchange_.end();
  }

  // The end: in a stream only that which no line before it has had.
  void write_last(SplicedText& out) const {
    const Choice& choice = choices_.front();
    write_said(out, choice.delta, last_calls_);
    out.own += ",\"done\":true,\"done_reason\":";
    out.own += choice.end.why == End::Why::kLength ? "\"length\"" : "\"stop\"";
    if (choice.prompt_ids) write_context(out, *choice.prompt_ids, request_.stream ? made_ : choice.delta.ids);
    write_figures(out.own, choice);
    out.own += '}';
  }
  // A stream tells the ids that are generated at its end. False: there is no room for them.
  bool take_ids(Choice& choice) {
    if (!choice.prompt_ids) return true;
    std::vector<uint32_t>& ids = choice.delta.ids;
    made_.insert(made_.end(), ids.begin(), ids.end());
    ids.clear();
    // As JSON, too.
    constexpr uint64_t kEach = sizeof(uint32_t) + 8;
    return charge_bytes(made_charged_, kEach * (choice.prompt_ids->size() + made_.capacity()));
  }
  // The whole conversation as ids, which the client sends with its next prompt.
  static void write_context(SplicedText& out, const std::vector<uint32_t>& prompt, const std::vector<uint32_t>& made) {
    out.own += ",\"context\":[";
    out.splice_ids(prompt);
    if (!prompt.empty() && !made.empty()) out.own += ',';
    out.splice_ids(made);
    out.own += ']';
  }

  // Those that another one follows; the last is kept until it is whole.
  std::vector<CallDelta> take_calls(ChoiceDelta& delta) {
    std::vector<CallDelta> out;
    for (CallDelta& piece : delta.calls) {
      if (piece.name.empty()) {
        open_call_.arguments += piece.arguments;
        continue;
      }
      if (!open_call_.name.empty()) out.push_back(std::move(open_call_));
      open_call_ = std::move(piece);
    }
    delta.calls.clear();
    return out;
  }

  void write_said(SplicedText& out, const ChoiceDelta& said, const std::vector<CallDelta>& calls) const {
    out.own += answer_head(state_, model_);
    out.own += shape_ == Shape::kMessage ? R"(,"message":{"role":"assistant","content":)" : ",\"response\":";
    out.splice_string(said.text);
    if (!said.reasoning.empty()) out.own += ",\"thinking\":", out.splice_string(said.reasoning);
    if (!calls.empty()) write_calls(out, calls);
    if (shape_ == Shape::kMessage) out.own += '}';
    if (!said.logprob_entries().empty()) write_list(out, ",\"logprobs\":[", said.logprob_entries());
  }
  Kind logprob_form() const override { return Kind::kChat; }

  static void write_calls(SplicedText& text, const std::vector<CallDelta>& calls) {
    std::string& out = text.own;
    bool any = false;
    for (const CallDelta& call : calls) {
      if (!has_object(call)) continue;
      out += any ? ",{\"id\":" : ",\"tool_calls\":[{\"id\":";
      any = true;
      marshal::write_string(out, call.id);
      out += ",\"function\":{\"index\":" + std::to_string(call.index) + ",\"name\":";
      marshal::write_string(out, call.name);
      out += ",\"arguments\":";
      text.splice(call.arguments);
      out += "}}";
    }
    if (any) out += ']';
  }

  void write_figures(std::string& out, const Choice& choice) const {
    const base::Time now = exchange_.now();
    const wire::RequestRecord& record = exchange_.record();
    const base::Duration took = record.took(now);
    base::Duration answering{0};  // clients divide by it where there are tokens
    if (choice.first_token != base::kNever) answering = std::max(now - choice.first_token, base::Duration{1});
    // Go's clients cannot tell 0 from a time that is missing.
    const std::pair<std::string_view, int64_t> rows[] = {
        {"total_duration", took.count()},
        {"load_duration", std::max<int64_t>(record.queue.count(), 1)},
        {"prompt_eval_count", choice.prompt_tokens},
        {"prompt_eval_duration", std::max<int64_t>((took - answering - record.queue).count(), 1)},
        {"eval_count", choice.completion_tokens},
        {"eval_duration", answering.count()}};
    for (const auto& [name, value] : rows) ((((out += ",\"") += name) += "\":") += std::to_string(value));
  }

  void open() {
    if (exchange_.responding()) return;
    exchange_.head(wire::stream_head("application/x-ndjson"));
  }
  void send(SplicedText& line) {
    std::string text;
    line.append_to(text);
    exchange_.body(base::Bytes::adopt(std::move(text)));
  }

  const Shape shape_;
  std::vector<uint32_t> made_;  // ids of a stream, where they are asked for
  uint64_t made_charged_ = 0;
  CallDelta open_call_;                // of a stream: the last, to which more may come
  std::vector<CallDelta> last_calls_;  // that are told at the end
};

}  // namespace

std::string answer_head(const OpenAiState& state, std::string_view model) {
  std::string out = "{\"model\":";
  marshal::write_string(out, model);
  out += ",\"created_at\":\"";
  base::append_utc(out, state.bus.env().wall());
  return out += '"';
}

std::unique_ptr<Answer> chat_answer(OpenAiState& state, Exchange& exchange, Kind kind, Request request) {
  return std::make_unique<OllamaAnswer>(state, exchange, kind, std::move(request), Shape::kMessage);
}

std::unique_ptr<Answer> generate_answer(OpenAiState& state, Exchange& exchange, Kind kind, Request request) {
  return std::make_unique<OllamaAnswer>(state, exchange, kind, std::move(request), Shape::kResponse);
}

}  // namespace weir::openai::ollama
