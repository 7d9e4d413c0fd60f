// Answers in TGI's form:
//
//   {"generated_text":…,"details":{"finish_reason","generated_tokens","seed","prefill":[…],"tokens":[…]}}
//   a stream's event for each token: {"index":1,"token":{"id","text","logprob","special"},"generated_text":null,
//   "details":null}; the last one has all of the text, and details where they are asked for
// A token that may be the last is held back until the next one, or the end: everything else goes out at once.
#include <algorithm>

#include "dialects/openai/event_answer.h"
#include "dialects/openai/generate/generate.h"
#include "dialects/openai/pieces_text.h"
#include "marshal/json_tensor.h"
#include "wire/answer_flow.h"

namespace weir::openai::generate {
namespace {

using wire::Exchange;

class TgiAnswer final : public EventAnswer {
 public:
  using EventAnswer::EventAnswer;

 private:
  struct Kept {
    std::unique_ptr<msg::TokenDecoder> decoder;  // of the tokens' own texts, special ones included
    JsonElements prefill, tokens, top;
    std::string held;   // an event without its end
    uint32_t seen = 0;  // tokens
    uint32_t last_id = 0;
    uint64_t charged = 0;
    size_t bytes() const { return prefill.held() + tokens.held() + top.held(); }
  };

  Kept& kept(const Choice& choice) {
    if (kept_.size() <= choice.index()) kept_.resize(choice.index() + 1);
    return kept_[choice.index()];
  }

  // ---- Tokens

  bool keep(Choice& choice, const msg::Token& token) override {
    if (!token.prefill) return add_token(kept(choice), token.id, token.details.get()), true;
    std::string& out = kept(choice).prefill.next();
    out += '{';
    write_token(out, token.id, bytes_of(form_, token.id, *token.details, 0), token.details.get());
    out += '}';
    return true;
  }
  // Those that came without details.
  void catch_up(Choice& choice) {
    Kept& all = kept(choice);
    if (!request_.stream && !request_.native.details) return;
    while (all.seen < choice.delta.ids.size()) add_token(all, choice.delta.ids[all.seen], nullptr);
  }

  void add_token(Kept& all, uint32_t id, const msg::TokenDetails* details) {
    if (!all.decoder) all.decoder = form_.codec->decoder(msg::SkipSpecial::kNo);
    std::string text, out = "{";
    all.decoder->step(id, text);
    write_token(out, id, text, details);
    out += form_.codec->special(id) ? ",\"special\":true}" : ",\"special\":false}";
    ++all.seen, all.last_id = id;
    const std::string top = likeliest(details);
    if (request_.stream) return hold(all, out, top);
    all.tokens.next() += out;
    if (!top.empty()) all.top.next() += top;
  }
  // The list of other tokens, as JSON; empty: they are not asked for.
  std::string likeliest(const msg::TokenDetails* details) const {
    if (!details || request_.logprobs.value_or(0) == 0) return {};
    std::string out = "[";
    for (size_t i = 0; i < details->top.size() && i < *request_.logprobs; ++i) {
      const msg::TokenLogprob& one = details->top[i];
      out += i > 0 ? ",{\"id\":" : "{\"id\":";
      out += std::to_string(one.id) + ",\"text\":";
      marshal::write_string(out, bytes_of(form_, one.id, *details, i + 1));
      out += ",\"logprob\":";
      write_logprob(out, one.logprob);
      out += form_.codec->special(one.id) ? ",\"special\":true}" : ",\"special\":false}";
    }
    return out += ']';
  }
  static void write_token(std::string& out, uint32_t id, std::string_view text, const msg::TokenDetails* details) {
    out += "\"id\":" + std::to_string(id) + ",\"text\":";
    marshal::write_string(out, text);
    out += ",\"logprob\":";
    if (details && details->has_logprob)
      write_logprob(out, details->logprob);
    else
      out += "null";
  }

  // ---- A stream

  void hold(Kept& all, std::string_view token, std::string_view top) {
    release(all);
    all.held = "data: {\"index\":" + std::to_string(all.seen) + ",\"token\":";
    all.held += token;
    if (!top.empty()) (all.held += ",\"top_tokens\":") += top;
  }
  void release(Kept& all) {
    if (!all.held.empty()) stream_.send(std::exchange(all.held, {}) + ",\"generated_text\":null,\"details\":null}\n\n");
  }
  bool may_be_last(const Kept& all) const {
    return all.seen == request_.params.max_tokens ||
           std::find(end_ids_.begin(), end_ids_.end(), all.last_id) != end_ids_.end();
  }
  void end_stream() {
    const Choice& choice = choices_.front();
    Kept& all = kept(choice);
    if (all.held.empty())  // the end came by itself: a token that adds nothing, for each event has one
      hold(all, "{\"id\":" + std::to_string(all.last_id) + R"(,"text":"","logprob":0,"special":true})", {});
    std::string frame = std::move(all.held) + ",\"generated_text\":";
    SplicedText text;
    splice_text(choice, text);
    text.append_to(frame);
    frame += ",\"details\":";
    if (request_.native.details) {
      frame += '{';
      write_end(choice, frame);
      frame += ",\"input_length\":" + std::to_string(choice.prompt_tokens) + '}';
    } else {
      frame += "null";
    }
    stream_.end(std::move(frame += "}\n\n"));
  }

  // ---- What becomes of it

  void grew(Choice& choice) override {
    catch_up(choice);
    Kept& all = kept(choice);
    if (!charge(choice) || !charge_bytes(all.charged, all.bytes())) return fail(wire::no_room_for_answer());
    if (!request_.stream) return;
    if (end_ids_.empty()) end_ids_ = marshal::end_ids(request_.params, *spec_);
    if (!may_be_last(all)) release(all);
  }
  void ended(Choice& choice) override { catch_up(choice); }
  void over() override {
    if (request_.stream) return gathered_.charge_text() ? end_stream() : fail(wire::no_room_for_answer());
    std::vector<const Choice*> by_chance;
    for (const Choice& choice : choices_) by_chance.push_back(&choice);
    std::stable_sort(by_chance.begin(), by_chance.end(),
                     [](const Choice* a, const Choice* b) { return a->mean_logprob() > b->mean_logprob(); });
    if (!request_.native.details) by_chance.resize(1);
    const size_t count = by_chance.size();
    finish_text(std::make_unique<PiecesText>(
        count, [this, all = std::move(by_chance)](size_t i, SplicedText& out) { write_piece(all, i, out); }));
  }
  void let_go() override {
    kept_.clear();
    EventAnswer::let_go();
  }
  // The likeliest, and the others in its details.
  void write_piece(const std::vector<const Choice*>& all, size_t i, SplicedText& text) {
    std::string& out = text.own;
    if (i == 0 && request_.native.list) out += '[';
    if (i > 0) out += i == 1 ? ",\"best_of_sequences\":[" : ",";
    out += "{\"generated_text\":";
    splice_text(*all[i], text);
    if (request_.native.details) {
      out += i == 0 ? ",\"details\":{" : ",";
      write_details(*all[i], text);
    }
    if (i > 0) out += '}';
    if (i + 1 < all.size()) return;
    if (i > 0) out += ']';
    if (request_.native.details) out += '}';
    out += request_.native.list ? "}]" : "}";
  }
  void break_off(const ApiError& error) override { stream_.end("data: " + tgi_error_json(error.status) + "\n\n"); }

  void splice_text(const Choice& choice, SplicedText& out) const {
    out.own += '"';
    if (request_.native.full_text) out.splice_text(request_.prompts.front().text);
    out.splice_text(choice.delta.text);
    out.own += '"';
  }
  void write_details(const Choice& choice, SplicedText& out) {
    const Kept& all = kept(choice);
    write_end(choice, out.own);
    write_list(out, ",\"prefill\":[", all.prefill);
    write_list(out, ",\"tokens\":[", all.tokens);
    if (!all.top.empty()) write_list(out, ",\"top_tokens\":[", all.top);
  }
  void write_end(const Choice& choice, std::string& out) const {
    const bool length = choice.end.why == End::Why::kLength;
    const bool stopped = choice.end.stop_reason.starts_with('"');
    out += "\"finish_reason\":";
    out += length ? "\"length\"" : stopped ? "\"stop_sequence\"" : "\"eos_token\"";
    out += ",\"generated_tokens\":" + std::to_string(choice.completion_tokens) + ",\"seed\":";
    out += request_.params.seed ? std::to_string(*request_.params.seed + choice.index()) : "null";
  }

  std::vector<Kept> kept_;  // by choice
  std::vector<uint32_t> end_ids_;
};

}  // namespace

// Details tell the seed of what is drawn, with which the client can have it again.
std::unique_ptr<Answer> tgi_answer(OpenAiState& state, Exchange& exchange, Kind kind, Request request) {
  constexpr int kInexact = 11;  // bits that a number of JSON may lose
  marshal::GenerationParams& params = request.params;
  if (request.native.details && !params.seed && params.temperature.value_or(0) > 0)
    params.seed = state.bus.env().random() >> kInexact;
  return std::make_unique<TgiAnswer>(state, exchange, kind, std::move(request));
}

}  // namespace weir::openai::generate
