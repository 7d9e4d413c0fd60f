// A streamed answer: Server-Sent Events, one for every token that makes text certain.
//
//   data: {"id":…,"object":"chat.completion.chunk","created":…,"model":…,"choices":[…]}\n\n
//   …
//   data: [DONE]\n\n
// A chat is streamed as a chunk with the role, chunks with thoughts, text and calls of tools, a chunk with
// finish_reason; with stream_options.include_usage one more with the usage and no choices. For llama.cpp's clients all
// but the first have `timings`, and the first of a choice its `prompt_progress`. A chunk is appended to a string by
// hand: no document is built for a token.
#include "dialects/openai/answer.h"
#include "dialects/openai/chats/chats.h"
#include "dialects/openai/event_answer.h"
#include "marshal/json_pieces.h"
#include "marshal/json_tensor.h"

namespace weir::openai {
namespace {

using wire::Exchange;

class Streamed final : public EventAnswer {
 public:
  using EventAnswer::EventAnswer;

 private:
  void grew(Choice& choice) override { send_delta(choice); }
  void ended(Choice& choice) override { send_delta(choice); }
  void over() override {
    keep_whole();
    if (request_.include_usage) {
      std::string frame = prefix_ + "],";
      write_usage(frame, usage());
      if (request_.timings) llama_cpp::write_timings(frame, exchange_, usage().figures());
      stream_.send(std::move(frame += "}\n\n"));
    }
    finish();
  }
  void break_off(const ApiError& error) override {
    stream_.send("data: " + error_json(error) + "\n\n");
    finish();
  }

  void finish() { stream_.end("data: [DONE]\n\n"); }

  void opening() override {
    prefix_ =
        "data: {" + make_head(kind_ == Kind::kChat ? "chat.completion.chunk" : "text_completion") + ",\"choices\":[";
  }

  // Everything that is new of a choice, and its end.
  void send_delta(Choice& choice) {
    stream_.open();
    std::string frame;
    if (choice.begun && choice.end.why == End::Why::kNone && choice.delta.has_only_text() && !choice.prompt_ids &&
        !request_.continuous_usage && !request_.timings) {
      write_text_chunk(choice, frame);
    } else {
      frame.reserve(2 * prefix_.size() + choice.delta.weight() + choice.delta.text.size() / 4 + 256);
      if (!std::exchange(choice.begun, true) && (kind_ == Kind::kChat || request_.progress)) open_choice(choice, frame);
      write_chunk(choice, choice.delta, frame);
    }
    stream_.send(std::move(frame));
    gather(choice);
    choice.delta.clear();
  }

  // A chat that is stored is gathered beside the stream, which goes on where it is too long or there is no room for it.
  void gather(const Choice& choice) {
    if (!request_.store || kind_ != Kind::kChat) return;
    kept_.resize(choices_.size());
    kept_bytes_ += choice.delta.weight();
    kept_[choice.index()].append(choice.delta);
    if (!chats::are_kept(state_, request_, kept_bytes_) || !charge_bytes(kept_charged_, kept_bytes_))
      request_.store = false, kept_.clear(), gathered_.drop(kept_charged_);
  }
  void keep_whole() {
    if (kept_.empty() || !gathered_.charge_text()) return;
    std::vector<const Choice*> all;
    for (Choice& choice : choices_) {
      choice.delta = std::move(kept_[choice.index()]);
      choice.drop_cut_call();
      all.push_back(&choice);
    }
    std::string json;
    (void)whole_text(std::move(all))->write(json, SIZE_MAX);
    keep_chat(json);
  }

  // Most chunks: what they have around their text is written once for a choice, which saves 1,000 of 2,200
  // instructions.
  void write_text_chunk(Choice& choice, std::string& frame) {
    if (around_.size() <= choice.index()) around_.resize(choices_.size());
    auto& [before, after] = around_[choice.index()];
    if (before.empty()) {
      ChoiceDelta sample;
      sample.text = "-";
      write_chunk(choice, sample, frame);
      const size_t at = frame.rfind(R"("-")");
      before = frame.substr(0, at + 1), after = frame.substr(at + 2);
      frame.clear();
    }
    frame.reserve(before.size() + choice.delta.text.size() * 5 / 4 + after.size());
    frame += before;
    marshal::write_text_of_string(frame, choice.delta.text);
    frame += after;
  }

  void write_chunk(Choice& choice, const ChoiceDelta& delta, std::string& frame) const {
    begin(choice, frame);
    if (kind_ == Kind::kCompletion) {
      frame += ",\"text\":";
      marshal::write_string(frame, delta.text);
    } else if (delta.empty() && choice.end.why != End::Why::kNone) {
      frame += ",\"delta\":{}";
    } else {
      frame += ",\"delta\":{";
      delta.write_delta(frame, choice.end.form);
      frame += '}';
    }
    frame += ',';
    delta.write_logprobs(frame, kind_);
    frame += ',';
    write_end(frame, choice.end);
    if (kind_ == Kind::kCompletion) write_prompt_ids(choice, frame);
    // Clients of completions join the ids of all chunks.
    if (kind_ == Kind::kCompletion && request_.token_ids && delta.ids.empty()) frame += ",\"token_ids\":[]";
    delta.write_extras(frame);
    if (choice.moves > 0 && choice.end.why != End::Why::kNone)
      frame += ",\"weir_moved\":" + std::to_string(choice.moves);
    frame += "}]";
    close(choice, choice.completion_tokens, frame);
  }

  void begin(const Choice& choice, std::string& frame) const {
    frame += prefix_;
    frame += "{\"index\":";
    marshal::write_number(frame, uint64_t(choice.index()));
  }
  // `tokens`: of the completion, as far as the client has them with this chunk.
  void close(const Choice& choice, uint32_t tokens, std::string& frame) const {
    if (request_.continuous_usage) {
      frame += ',';
      write_usage(frame, {choice.prompt_tokens, tokens, choice.cached_tokens, std::min(choice.thought_tokens, tokens)});
    } else if (request_.include_usage) {
      frame += ",\"usage\":null";
    }
    if (request_.timings && tokens > 0) llama_cpp::write_timings(frame, exchange_, choice.figures());
    frame += "}\n\n";
  }
  void open_choice(Choice& choice, std::string& frame) {
    begin(choice, frame);
    const bool chat = kind_ == Kind::kChat;
    frame += chat ? R"(,"delta":{"role":"assistant","content":""})" : R"(,"text":"")";
    if (!chat && request_.token_ids) frame += R"(,"token_ids":[])";
    frame += R"(,"logprobs":null,"finish_reason":null}])";
    if (chat) write_prompt_ids(choice, frame);
    if (request_.progress) llama_cpp::write_progress(frame, exchange_, choice.figures());
    close(choice, 0, frame);
  }
  static void write_prompt_ids(Choice& choice, std::string& frame) {
    if (!choice.prompt_ids) return;
    frame += ",\"prompt_token_ids\":";
    write_ids(frame, *choice.prompt_ids);
    choice.prompt_ids = nullptr;
  }

  struct Around {
    std::string before, after;
  };

  std::string prefix_;             // of every chunk
  std::vector<ChoiceDelta> kept_;  // by choice
  uint64_t kept_bytes_ = 0, kept_charged_ = 0;
  std::vector<Around> around_;  // the text of a chunk that has nothing else, by choice; empty until its first
};

}  // namespace

std::unique_ptr<Answer> streamed(OpenAiState& state, Exchange& exchange, Kind kind, Request request) {
  return std::make_unique<Streamed>(state, exchange, kind, std::move(request));
}

}  // namespace weir::openai
