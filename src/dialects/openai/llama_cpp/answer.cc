// Answers in llama.cpp's form:
//
//   {"index","content","tokens":[…],"id_slot":-1,"stop":true,"model","tokens_predicted","tokens_evaluated",
//    "generation_settings":{…},"prompt","has_new_line","truncated","stop_type":"eos"|"limit"|"word","stopping_word",
//    "tokens_cached","timings":{…}}, and with n_probs
//    "completion_probabilities":[{"id","token",…,"top_logprobs"},…]
// With `post_sampling_probs` these have "prob" and "top_probs".
// Several prompts, or n_cmpl > 1, have a list of these. A stream's events are
// {"index","content","tokens","stop":false, …} for each token, then one of the form above without text, for each
// choice. There is no [DONE]. Of an answer with `response_fields` these alone are written, "timings/prompt_n" as a
// member of that name.
#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "dialects/openai/api_error.h"
#include "dialects/openai/event_answer.h"
#include "dialects/openai/llama_cpp/llama_cpp.h"
#include "dialects/openai/llama_cpp/shares.h"
#include "dialects/openai/pieces_text.h"
#include "marshal/json_tensor.h"
#include "wire/answer_flow.h"

namespace weir::openai::llama_cpp {
namespace {

using wire::Exchange;

constexpr uint64_t kMostRepeated = 1 << 20;  // bytes of prompts that a stream repeats

// An object of which those members alone are written that are asked for.
class Fields {
 public:
  Fields(const std::vector<std::string>& wanted, SplicedText& text) : wanted_(wanted), text_(text), out_(text.own) {
    out_ += '{';
  }

  // True: its value is to be written behind.
  bool begin(std::string_view name) {
    if (!wanted_.empty() && std::find(wanted_.begin(), wanted_.end(), name) == wanted_.end()) return false;
    (((out_ += first_ ? "\"" : ",\"")) += name) += "\":";
    first_ = false;
    return true;
  }
  void add(std::string_view name, std::string_view json) {
    if (begin(name)) out_ += json;
  }
  void add(std::string_view name, uint64_t value) { add(name, std::to_string(value)); }
  // A long text is spliced.
  void text(std::string_view name, std::string_view value) {
    if (begin(name)) text_.splice_string(value);
  }
  void flag(std::string_view name, bool value) { add(name, value ? "true" : "false"); }
  // An object, and the members of it that are asked for by themselves.
  void group(std::string_view name, const std::vector<Member>& members) {
    if (begin(name)) {
      out_ += '{';
      for (const auto& [member, json] : members)
        ((((out_ += out_.back() == '{' ? "\"" : ",\"") += member) += "\":") += json);
      out_ += '}';
    }
    if (wanted_.empty()) return;
    for (const auto& [member, json] : members) add(std::string(name) + '/' + std::string(member), json);
  }
  void end() { out_ += '}'; }

 private:
  const std::vector<std::string>& wanted_;
  SplicedText& text_;
  std::string& out_;  // its own
  bool first_ = true;
};

class LlamaAnswer final : public EventAnswer {
 public:
  using EventAnswer::EventAnswer;

 private:
  struct Kept {
    JsonElements probabilities;  // of tokens that have not been told
    uint64_t charged = 0;
    size_t seen = 0;  // bytes of the choice's delta that read_lines() has been through
    bool new_line = false;
    std::optional<size_t> blanks{};  // that the last line begins with so far; nothing: it has begun
    std::optional<size_t> cut{};     // where its delta ends, of one that ends before a line
  };

  Kept& kept(const Choice& choice) {
    if (kept_.size() <= choice.index()) kept_.resize(choice.index() + 1);
    return kept_[choice.index()];
  }

  Kind logprob_form() const override { return Kind::kChat; }
  bool keep(Choice& choice, const msg::Token& token) override {
    std::string& out = kept(choice).probabilities.next();
    const msg::TokenDetails& details = *token.details;
    if (request_.native.final_shares) return keep_shares(out, token.id, details), true;
    write_token_with_id(out, form_, {token.id, details.logprob}, details, 0);
    out += ",\"top_logprobs\":[";
    for (size_t i = 0; i < details.top.size() && i < *request_.logprobs; ++i) {
      if (i > 0) out += ',';
      write_token_with_id(out, form_, details.top[i], details, i + 1);
      out += '}';
    }
    out += "]}";
    return true;
  }

  // Beside a token that is drawn greedily the others are told, too, as llama.cpp does.
  void keep_shares(std::string& out, uint32_t id, const msg::TokenDetails& details) const {
    const std::vector<float> shares = final_shares(sampling_, details.top);
    const auto own = std::find_if(details.top.begin(), details.top.end(), [id](auto& one) { return one.id == id; });
    const float share = own == details.top.end() ? 0 : shares[size_t(own - details.top.begin())];
    write_token_share(out, form_, id, share, details, 0);
    out += ",\"top_probs\":[";
    for (size_t i = 0; i < details.top.size() && i < *request_.logprobs; ++i) {
      if (shares[i] == 0 && sampling_.temperature > 0) continue;
      if (out.back() != '[') out += ',';
      write_token_share(out, form_, details.top[i].id, shares[i], details, i + 1);
      out += '}';
    }
    out += "]}";
  }

  // Goes through what is new of the text.
  void read_lines(const Choice& choice) {
    Kept& all = kept(choice);
    const std::string& text = choice.delta.text;
    const bool indented = request_.native.indent > 0;
    if (!indented) all.new_line = all.new_line || text.find('\n', all.seen) != text.npos;
    for (; indented && all.seen < text.size() && !all.cut; ++all.seen) {
      const char c = text[all.seen];
      if (c == '\n')
        all.new_line = true, all.blanks = 0;
      else if (all.blanks && (c == ' ' || c == '\t'))
        ++*all.blanks;
      else if (all.blanks.value_or(request_.native.indent) < request_.native.indent)
        all.cut = all.seen;
      else
        all.blanks.reset();
    }
    all.seen = text.size();
  }
  bool has_enough(Choice& choice) override {
    const NativeForm& asked = request_.native;
    if (asked.predict_ms == 0 && asked.indent == 0) return false;
    read_lines(choice);
    const Kept& all = kept(choice);
    if (all.cut) return true;
    const auto most = std::chrono::milliseconds(asked.predict_ms);
    return asked.predict_ms > 0 && all.new_line && exchange_.now() - choice.first_token > most;
  }

  void grew(Choice& choice) override {
    if (request_.stream) return send_piece(choice);
    Kept& all = kept(choice);
    if (!charge(choice) || !charge_bytes(all.charged, all.probabilities.held())) fail(wire::no_room_for_answer());
  }
  // As in llama.cpp only the text is cut: what is told of tokens has those of the line, too.
  void ended(Choice& choice) override {
    if (request_.native.indent > 0) read_lines(choice);
    if (const auto cut = kept(choice).cut) choice.delta.text.resize(*cut);
    if (!request_.stream) return;
    if (!choice.delta.empty() || !kept(choice).probabilities.empty()) send_piece(choice);
    if (!last_.empty()) stream_.send(std::exchange(last_, {}));
    last_ = "data: ";
    SplicedText event;
    write_answer(choice, event);
    event.append_to(last_);
    last_ += "\n\n";
  }
  void over() override {
    if (request_.stream) return stream_.end(std::move(last_));
    finish_text(std::make_unique<PiecesText>(choices_.size(), [this](size_t i, SplicedText& out) {
      const bool list = choices_.size() > 1;
      if (list) out.own += i > 0 ? ',' : '[';
      write_answer(choices_[i], out);
      if (list && i + 1 == choices_.size()) out.own += ']';
    }));
  }
  void let_go() override {
    kept_.clear();
    EventAnswer::let_go();
  }
  void break_off(const ApiError& error) override { stream_.end("data: " + llama_error_json(error) + "\n\n"); }

  void send_piece(Choice& choice) {
    read_lines(choice);
    Kept& all = kept(choice);
    if (request_.progress && !std::exchange(choice.begun, true)) send_progress(choice);
    std::string frame = "data: {\"index\":" + std::to_string(choice.index()) + ",\"content\":";
    marshal::write_string(frame, choice.delta.text);
    frame += ",\"tokens\":";
    write_ids(frame, choice.delta.ids);
    frame += ",\"stop\":false,\"id_slot\":-1,\"tokens_predicted\":" + std::to_string(choice.completion_tokens);
    frame += ",\"tokens_evaluated\":" + std::to_string(choice.prompt_tokens);
    if (request_.logprobs) {
      frame += ",\"completion_probabilities\":[";
      all.probabilities.append_to(frame);
      frame += ']';
    }
    all.probabilities.clear();
    if (request_.timings) write_timings(frame, exchange_, choice.figures());
    choice.delta.clear();
    all.seen = 0;
    stream_.send(std::move(frame += "}\n\n"));
  }

  void send_progress(const Choice& choice) {
    std::string frame = "data: {\"index\":" + std::to_string(choice.index());
    frame += R"(,"content":"","tokens":[],"stop":false,"id_slot":-1,"tokens_predicted":0,"tokens_evaluated":)";
    frame += std::to_string(choice.prompt_tokens);
    write_progress(frame, exchange_, choice.figures());
    stream_.send(std::move(frame += "}\n\n"));
  }

  // A stream's is without what its events have had.
  void write_answer(const Choice& choice, SplicedText& text) {
    read_lines(choice);
    const Kept& all = kept(choice);
    Fields fields(request_.native.fields, text);
    fields.add("index", choice.index());
    fields.text("content", choice.delta.text);
    if (fields.begin("tokens")) write_ids(text, choice.delta.ids);
    fields.add("id_slot", "-1");
    fields.flag("stop", true);
    fields.text("model", model_);
    fields.add("tokens_predicted", choice.completion_tokens);
    fields.add("tokens_evaluated", choice.prompt_tokens);
    fields.group("generation_settings", settings_of(request_, *spec_));
    fields.text("prompt", prompt_of(choice));
    fields.flag("has_new_line", all.new_line);
    write_end_of(choice, fields);
    fields.add("tokens_cached", uint64_t(choice.prompt_tokens) + choice.completion_tokens);
    fields.group("timings", timings_of(exchange_, choice.figures()));
    if (request_.logprobs && !request_.stream && fields.begin("completion_probabilities"))
      write_list(text, "[", all.probabilities);
    fields.end();
  }

  void write_end_of(const Choice& choice, Fields& fields) const {
    const bool length = choice.end.why == End::Why::kLength;
    const bool word = choice.end.stop_reason.starts_with('"');
    const uint64_t tokens = uint64_t(choice.prompt_tokens) + choice.completion_tokens;
    fields.flag("truncated", length && tokens >= spec_->max_length);
    fields.text("stop_type", length ? "limit" : word ? "word" : "eos");
    fields.add("stopping_word", word ? std::string_view(choice.end.stop_reason) : "\"\"");
  }

  // A short request may have many choices of a long prompt. A stream may send all of them in one turn: it repeats the
  // prompt up to a limit, and where there is room.
  std::string_view prompt_of(const Choice& choice) {
    const Prompt& prompt = request_.prompts[choice.index() / request_.candidates()];
    if (!prompt.pieces.empty()) return {};
    const std::string_view text = prompt.text;
    if (!request_.stream) return text;
    const bool repeated = choice.index() % request_.candidates() > 0;
    if (repeated && prompts_charged_ + text.size() > kMostRepeated) return {};
    return charge_bytes(prompts_charged_, prompts_charged_ + text.size()) ? text : std::string_view();
  }

  std::vector<Kept> kept_;        // by choice
  uint64_t prompts_charged_ = 0;  // of a stream
  std::string last_;              // of a stream: the event that the end comes behind
};

}  // namespace

std::unique_ptr<Answer> make_answer(OpenAiState& state, Exchange& exchange, Kind kind, Request request) {
  return std::make_unique<LlamaAnswer>(state, exchange, kind, std::move(request));
}

}  // namespace weir::openai::llama_cpp
