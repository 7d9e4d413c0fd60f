// Answers in Ollama's form: {"model","created_at","message":{"role","content"},"done":false} for each piece of text,
// and a last one with done, done_reason, counts and times in nanoseconds. /api/generate has "response" for "message".
// "logprobs" are those of a chat of OpenAI's, without the object around them. Thoughts are "thinking" beside either; a
// message's "tool_calls" come when each is whole: a call whose arguments are no JSON object, because the answer was
// cut, is left out.
#include <algorithm>
#include <utility>

#include "base/utc_time.h"
#include "dialects/openai/ollama/ollama.h"
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

  void on_drain(Exchange&) override {
    for (Choice& choice : choices_) choice.call.repay();
  }

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
      std::string line = answer_head(state_, model_);
      write_said(line, choice.delta, whole);
      send(std::move(line += ",\"done\":false}\n"));
    }
    choice.delta.clear();
  }
  void ended(Choice&) override {}

  void over() override {
    if (!request_.stream && !charge_written()) return failed(wire::no_room_for_answer());
    Choice& choice = choices_.front();
    if (!take_ids(choice)) return failed(wire::no_room_for_answer());
    std::string out = answer_head(state_, model_);
    std::vector<CallDelta> calls = take_calls(choice.delta);
    if (!open_call_.name.empty()) calls.push_back(std::move(open_call_));
    write_said(out, choice.delta, calls);
    out += ",\"done\":true,\"done_reason\":";
    out += choice.end.why == End::Why::kLength ? "\"length\"" : "\"stop\"";
    write_context(out, choice);
    write_figures(out, choice);
    out += '}';
    if (!request_.stream) return finish_written(std::move(out));
    open();
    send(std::move(out += '\n'));
    exchange_.end();
  }

  void failed(const base::Status& status) override {
    if (!exchange_.responding()) return respond(exchange_, refuse(status));
    exchange_.record().set_outcome(status);
    std::string line = "{\"error\":";
    marshal::write_string(line, status.text);
    send(std::move(line += "}\n"));
    exchange_.end();
  }

  // The ids that are generated are told at the end. False: there is no room for them.
  bool take_ids(Choice& choice) {
    std::vector<uint32_t>& ids = choice.delta.ids;
    made_.insert(made_.end(), ids.begin(), ids.end());
    ids.clear();
    return charge_bytes(made_charged_, choice.prompt_ids.size() + sizeof(uint32_t) * made_.capacity());
  }
  // The whole conversation as ids, which the client sends with its next prompt.
  void write_context(std::string& out, const Choice& choice) const {
    if (!request_.token_ids) return;
    std::string made;
    write_ids(made, made_);
    out += ",\"context\":" + choice.prompt_ids;
    if (made_.empty()) return;
    out.back() = ',';
    out.append(made, 1);
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

  void write_said(std::string& out, const ChoiceDelta& said, const std::vector<CallDelta>& calls) const {
    out += shape_ == Shape::kMessage ? R"(,"message":{"role":"assistant","content":)" : ",\"response\":";
    marshal::write_string(out, said.text);
    if (!said.reasoning.empty()) out += ",\"thinking\":", marshal::write_string(out, said.reasoning);
    if (!calls.empty()) write_calls(out, calls);
    if (shape_ == Shape::kMessage) out += '}';
    if (const std::string_view tokens = said.logprob_entries(); !tokens.empty())
      ((out += ",\"logprobs\":[") += tokens) += ']';
  }
  Kind logprob_form() const override { return Kind::kChat; }

  static void write_calls(std::string& out, const std::vector<CallDelta>& calls) {
    bool any = false;
    for (const CallDelta& call : calls) {
      if (!has_object(call)) continue;
      out += any ? ",{\"id\":" : ",\"tool_calls\":[{\"id\":";
      any = true;
      marshal::write_string(out, call.id);
      out += ",\"function\":{\"index\":" + std::to_string(call.index) + ",\"name\":";
      marshal::write_string(out, call.name);
      ((out += ",\"arguments\":") += call.arguments) += "}}";
    }
    if (any) out += ']';
  }

  void write_figures(std::string& out, const Choice& choice) const {
    const base::Time now = exchange_.now();
    const wire::RequestRecord& record = exchange_.record();
    const base::Duration took = record.took(now);
    base::Duration answering{0};  // clients divide by it where there are tokens
    if (choice.first_token != base::kNever) answering = std::max(now - choice.first_token, base::Duration{1});
    const std::pair<std::string_view, int64_t> rows[] = {
        {"total_duration", took.count()},
        {"load_duration", 0},
        {"prompt_eval_count", choice.prompt_tokens},
        {"prompt_eval_duration", std::max<int64_t>((took - answering - record.queue).count(), 0)},
        {"eval_count", choice.completion_tokens},
        {"eval_duration", answering.count()}};
    for (const auto& [name, value] : rows) ((((out += ",\"") += name) += "\":") += std::to_string(value));
  }

  void open() {
    if (exchange_.responding()) return;
    exchange_.head(wire::stream_head("application/x-ndjson"));
  }
  void send(std::string line) { exchange_.body(base::Bytes::adopt(std::move(line))); }

  const Shape shape_;
  std::vector<uint32_t> made_;  // ids, where they are asked for
  uint64_t made_charged_ = 0;
  CallDelta open_call_;  // of a stream: the last, to which more may come
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
