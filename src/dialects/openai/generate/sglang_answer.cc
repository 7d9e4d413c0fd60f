// Answers in SGLang's form:
//
//   {"text":…,"output_ids":[…],"meta_info":{"id","finish_reason","prompt_tokens","completion_tokens","cached_tokens",…}}
//   finish_reason   {"type":"stop","matched":<id or text>}, {"type":"length","length":n}, {"type":"abort",…} or null
//   logprobs        "input_token_logprobs", "output_token_logprobs": [[logprob,id,text or null],…], and of each of them
//                   the likeliest as "…_top_logprobs": [[[logprob,id,text or null],…],…]
// Several texts, or n > 1, have a list of these. A stream's events have all of an answer so far, with "index" where
// there are several; the last is [DONE]. Because each event replaces the one before it, a peer that reads slowly gets
// fewer of them: at most one answer waits beyond what the connection holds. So does one whose answer is long: events
// for each token of it would have a thousand times its bytes. It gets one each second all the same.
#include "dialects/openai/api_error.h"
#include "dialects/openai/event_answer.h"
#include "dialects/openai/generate/generate.h"
#include "dialects/openai/pieces_text.h"
#include "marshal/json_pieces.h"
#include "marshal/json_tensor.h"
#include "wire/answer_flow.h"

namespace weir::openai::generate {
namespace {

using wire::Exchange;

// Behind an event of so many bytes the next one comes when there is an eighth more to tell, or the end, which together
// have no more than ten times the bytes of a long answer; or with the first token that comes kLongSilence later.
constexpr uint64_t kLongEvent = 16 << 10;
constexpr base::Duration kLongSilence = std::chrono::seconds(1);

class SglangAnswer final : public EventAnswer {
 public:
  SglangAnswer(OpenAiState& state, Exchange& exchange, Kind kind, Request request)
      : EventAnswer(state, exchange, kind, std::move(request)), own_id_(new_id()) {}

  void on_drain(Exchange& exchange) override {
    EventAnswer::on_drain(exchange);
    flush();
  }

 private:
  struct Logprobs {
    JsonElements own, top;
  };
  struct Kept {
    Logprobs input, output;
    uint32_t last_id = 0;
    uint64_t charged = 0;
    uint64_t told = 0;  // size_of() at the last event
    base::Time told_at{};
    bool due = false;  // the peer has not been told of all
    size_t size() const { return input.own.size() + input.top.size() + output.own.size() + output.top.size(); }
    size_t held() const { return input.own.held() + input.top.held() + output.own.held() + output.top.held(); }
  };

  Kept& kept(const Choice& choice) {
    if (kept_.size() <= choice.index()) kept_.resize(choice.index() + 1);
    return kept_[choice.index()];
  }

  bool keep(Choice& choice, const msg::Token& token) override {
    Kept& all = kept(choice);
    if (!token.prefill)
      add(all.output, token, *request_.logprobs);
    else if (token.position >= request_.native.logprob_start)
      add(all.input, token, *request_.prompt_logprobs);
    return true;
  }

  void add(Logprobs& out, const msg::Token& token, uint32_t alternatives) const {
    const msg::TokenDetails& details = *token.details;
    write_entry(out.own.next(), token.id, details.has_logprob ? &details.logprob : nullptr, details, 0);
    if (alternatives == 0) return;
    std::string& top = out.top.next();
    top += details.has_logprob ? "[" : "null";
    if (!details.has_logprob) return;
    for (size_t i = 0; i < details.top.size() && i < alternatives; ++i) {
      if (i > 0) top += ',';
      write_entry(top, details.top[i].id, &details.top[i].logprob, details, i + 1);
    }
    top += ']';
  }
  void write_entry(std::string& out, uint32_t id, const float* logprob, const msg::TokenDetails& details,
                   size_t place) const {
    out += '[';
    if (logprob)
      write_logprob(out, *logprob);
    else
      out += "null";
    out += ',' + std::to_string(id) + ',';
    if (request_.native.token_texts)
      marshal::write_string(out, bytes_of(form_, id, details, place));
    else
      out += "null";
    out += ']';
  }

  void grew(Choice& choice) override {
    Kept& all = kept(choice);
    if (!choice.delta.ids.empty()) all.last_id = choice.delta.ids.back();
    uint64_t bytes = all.held();
    if (request_.stream) bytes += all.size() + choice.delta.weight();  // one event has all of it
    if (!charge(choice) || !charge_bytes(all.charged, bytes)) return fail(wire::no_room_for_answer());
    all.due = !choice.delta.ids.empty();
    flush();
  }
  void ended(Choice& choice) override {
    Kept& all = kept(choice);
    if (!choice.delta.ids.empty()) all.last_id = choice.delta.ids.back();
    all.due = true;
  }
  void over() override {
    over_ = true;
    if (request_.stream) return flush();
    finish_text(std::make_unique<PiecesText>(choices_.size(), [this](size_t i, SplicedText& out) {
      if (several()) out.own += i > 0 ? ',' : '[';
      write_answer(choices_[i], out);
      if (several() && i + 1 == choices_.size()) out.own += ']';
    }));
  }
  void let_go() override {
    kept_.clear();
    EventAnswer::let_go();
  }
  void break_off(const ApiError& error) override {
    const bool full = error.status.code == base::Code::kResourceExhausted;  // of memory, it may be
    for (const Choice& choice : choices_)
      if (kept(choice).due && !full && exchange_.has_room()) send_event(choice);
    stream_.send("data: " + error_json(error) + "\n\n");
    finish();
  }

  bool several() const { return request_.native.list || choices_.size() > 1; }

  // As many events as the peer has room for.
  void flush() {
    if (!request_.stream || done_) return;
    for (Choice& choice : choices_) {
      Kept& all = kept(choice);
      if (!all.due || (choice.end.why == End::Why::kNone && !much_is_new(choice))) continue;
      if (exchange_.responding() && !exchange_.has_room()) return;
      send_event(choice);
    }
    if (over_) finish();
  }
  void send_event(const Choice& choice) {
    SplicedText event;
    event.own = "data: ";
    write_answer(choice, event);
    event.own += "\n\n";
    std::string frame;
    event.append_to(frame);
    Kept& all = kept(choice);
    all.due = false, all.told = size_of(choice), all.told_at = state_.bus.env().now();
    stream_.send(std::move(frame));
  }
  // About as long as an event of it.
  uint64_t size_of(const Choice& choice) { return kept(choice).size() + choice.delta.weight(); }
  bool much_is_new(const Choice& choice) {
    const Kept& all = kept(choice);
    return all.told < kLongEvent || size_of(choice) > all.told + all.told / 8 ||
           state_.bus.env().now() >= all.told_at + kLongSilence;
  }

  void finish() {
    done_ = true;
    stream_.end("data: [DONE]\n\n");
  }

  void write_answer(const Choice& choice, SplicedText& text) {
    std::string& out = text.own;
    out += "{\"text\":";
    text.splice_string(choice.delta.text);
    out += ",\"output_ids\":";
    write_ids(text, choice.delta.ids);
    out += ",\"meta_info\":{\"id\":";
    marshal::write_string(out, id_of(choice));
    write_finish(choice, out);
    out += ",\"prompt_tokens\":" + std::to_string(choice.prompt_tokens);
    out += ",\"completion_tokens\":" + std::to_string(choice.completion_tokens);
    out += ",\"cached_tokens\":" + std::to_string(choice.cached_tokens);
    write_logprobs(kept(choice), text);
    if (choice.end.why != End::Why::kNone) {
      out += ",\"e2e_latency\":";
      marshal::write_number(out, std::chrono::duration<double>(exchange_.record().took(exchange_.now())).count());
    }
    out += '}';
    if (request_.stream && several()) out += ",\"index\":" + std::to_string(choice.index());
    out += '}';
  }

  std::string id_of(const Choice& choice) const {
    const uint32_t each = request_.candidates(), prompt = choice.index() / each;
    const auto& ids = request_.native.ids;
    std::string id = prompt < ids.size() ? ids[prompt] : own_id_;
    if (ids.empty() && choices_.size() > 1) return id += '_' + std::to_string(choice.index());
    return each > 1 ? id += '_' + std::to_string(choice.index() % each) : id;
  }

  void write_finish(const Choice& choice, std::string& out) {
    out += ",\"finish_reason\":";
    switch (choice.end.why) {
      case End::Why::kNone: out += "null"; break;
      case End::Why::kLength:
        out += R"({"type":"length","length":)" + std::to_string(choice.completion_tokens) + '}';
        break;
      case End::Why::kFiltered: out += R"({"type":"abort","message":"a filter of contents has ended it"})"; break;
      case End::Why::kStop:
        out += R"({"type":"stop","matched":)";
        out += choice.end.stop_reason.empty() ? std::to_string(kept(choice).last_id) : choice.end.stop_reason;
        out += '}';
    }
  }

  void write_logprobs(const Kept& all, SplicedText& out) const {
    if (!request_.logprobs) return;
    write_list(out, ",\"input_token_logprobs\":[", all.input.own);
    write_list(out, ",\"output_token_logprobs\":[", all.output.own);
    if (*request_.logprobs == 0) return;
    write_list(out, ",\"input_top_logprobs\":[", all.input.top);
    write_list(out, ",\"output_top_logprobs\":[", all.output.top);
  }

  const std::string own_id_;
  std::vector<Kept> kept_;  // by choice
  bool over_ = false, done_ = false;
};

}  // namespace

std::unique_ptr<Answer> sglang_answer(OpenAiState& state, Exchange& exchange, Kind kind, Request request) {
  return std::make_unique<SglangAnswer>(state, exchange, kind, std::move(request));
}

}  // namespace weir::openai::generate
