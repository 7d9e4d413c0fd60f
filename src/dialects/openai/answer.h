// Answer: one request for text under way: as many Calls as it has choices, and what becomes of their tokens.
//
// Owned by the Exchange as its ExchangeListener. Streamed and whole answers derive from it (streamed.cc, whole.cc).
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bus/call_handle.h"
#include "dialects/openai/choice_delta.h"
#include "dialects/openai/custom_tools.h"
#include "dialects/openai/json_elements.h"
#include "dialects/openai/llama_cpp/timings.h"
#include "dialects/openai/prompt.h"
#include "dialects/openai/request.h"
#include "dialects/openai/state.h"
#include "marshal/call_times.h"
#include "msg/call.h"
#include "text/answer_parser.h"
#include "text/completion.h"
#include "wire/answer_flow.h"
#include "wire/exchange.h"
#include "wire/gathered_answer.h"

namespace weir::openai {

class Answer : public wire::ExchangeListener {
 public:
  Answer(OpenAiState& state, wire::Exchange& exchange, Kind kind, Request request);
  ~Answer() override;

  // Sends a Call for every choice. On a refusal nothing is under way.
  ApiError start(bus::Served& served, std::vector<Sequence> prompts);
  void on_close(wire::Exchange&, bool) override { leave(); }
  void on_drain(wire::Exchange&) override;
  uint64_t held_for_answer() const override { return gathered_.used(); }

 protected:
  // One choice of an Answer: the Sink of its Call.
  class Choice final : public msg::Sink {
   public:
    // Without a parser all of the text is content.
    Choice(Answer& answer, uint32_t index, text::Completion text, std::optional<text::AnswerParser> parser);

    uint32_t index() const { return index_; }
    // How likely it is, whatever its length.
    double mean_logprob() const { return logprob / std::max(completion_tokens, 1u); }
    llama_cpp::TokenFigures figures() const { return {prompt_tokens, cached_tokens, completion_tokens, first_token}; }
    // Leaves out the call that its end cuts. For answers in one piece, once it is over.
    void drop_cut_call();

    bus::CallHandle call;
    ChoiceDelta delta;                                        // since the last chunk, or altogether
    std::shared_ptr<const std::vector<uint32_t>> prompt_ids;  // of all choices of a prompt; null: not to be told
    JsonElements prompt_logprobs;
    uint32_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0, thought_tokens = 0;
    uint32_t moves = 0;  // from one origin to another
    double logprob = 0;  // of all tokens together, where it is asked for (best_of)
    End end;
    bool begun = false;                     // its first chunk is out
    base::Time first_token = base::kNever;  // when it came
    uint64_t charged = 0;                   // bytes of what it holds, in a whole answer's charge

   private:
    void on(msg::Call& from, msg::Event&& event) override;
    void generated(const msg::Call& from, const msg::Token& token);
    void prompted(const msg::Token& token);
    void read(text::AnswerPieces pieces);
    void tell(text::AnswerPieces pieces);
    void finish_text();
    void end_calls();
    bool has_all_calls() const;
    void stopped(const msg::Call& from, End::Why why);
    void done(const msg::Done& done);

    Answer& answer_;
    uint32_t index_;
    text::Completion text_;
    std::optional<text::AnswerParser> parser_;
    CustomCalls custom_;
    uint64_t custom_charged_ = 0;
    bool cut_custom_ = false;  // the call that the end cuts was one of these, and has not been told
    std::string piece_;        // for the parser; keeps its capacity
  };

  // The piece has something that was generated. Not called for a choice that has ended.
  virtual void grew(Choice& choice) = 0;
  // A choice is over; its piece has the rest.
  virtual void ended(Choice& choice) = 0;
  // All of them are.
  virtual void over() = 0;
  // Nothing more comes. The Answer may be destroyed from here on.
  virtual void failed(const base::Status& status) = 0;

  // Ends it with that; the calls that run are told to stop.
  void fail(const base::Status& status);
  Usage usage() const;
  void leave();
  // `"id":…,"object":…,"created":…,"model":…`
  std::string make_head(std::string_view object);
  // The JSON of an answer of these choices, as it is where it is not streamed (whole_text.cc). It borrows them.
  std::unique_ptr<wire::TextSource> whole_text(std::vector<const Choice*> chosen);
  // Stores that JSON, where the request wants it.
  void keep_chat(std::string_view json) const;
  std::string new_id();  // the client's request_id, or a random one
  // Asked after each token that does not end it: true where the choice has what it was to have, as far as its length
  // goes. The rest of its text may still come.
  virtual bool has_enough(Choice&) { return false; }
  // A token with the details that the request asks for: true where it keeps them itself, and not in OpenAI's form.
  virtual bool keep(Choice&, const msg::Token&) { return false; }
  // In which of OpenAI's forms logprobs are kept.
  virtual Kind logprob_form() const { return kind_; }
  // The id of a call of a tool, as this API has it; at random.
  virtual std::string call_id();
  std::string random_id(size_t digits);

  // An answer in one piece: what is gathered is charged while it grows. False: there is no room
  // (wire::no_room_for_answer()).
  bool charge(Choice& choice);
  bool charge_bytes(uint64_t& counted, uint64_t bytes) { return gathered_.grow(counted, bytes); }
  // Answers, or ends a stream, with what is written of that while the peer takes it. It stays charged until all is
  // written, and beside it what is written and not taken.
  void finish_text(std::unique_ptr<wire::TextSource> text);
  // The same of a text that was made of all of it at once, behind gathered_.charge_text().
  void finish_written(base::Bytes json);
  // All that was gathered goes: it is written, or one text has been made of it.
  virtual void let_go();

  OpenAiState& state_;
  wire::Exchange& exchange_;
  const Kind kind_;
  Request request_;
  std::deque<Choice> choices_;  // by index
  std::shared_ptr<const msg::TextSpec> spec_;
  TokenForm form_;
  msg::Sampling sampling_;  // of all choices but for the seed, where probabilities of the draw are asked for
  std::string model_;       // as the answer calls it
  wire::GatheredAnswer gathered_;

 private:
  class WholeText;
  using PromptIds = std::shared_ptr<const std::vector<uint32_t>>;
  // `told`: the ids, where the answer has them.
  ApiError submit(bus::Served& served, const Sequence& prompt, std::vector<uint32_t> ids, PromptIds told);
  ApiError fill(const msg::TextSpec& spec, msg::Generation& generation, uint32_t index);
  void closed(Choice& choice, const msg::Call& call, marshal::CallDurations took);

  std::string id_;
  int64_t created_ = 0;
  wire::PiecewiseAnswer whole_{exchange_};
  size_t open_ = 0;
  bool counted_ = false;
};

using MakeAnswer = std::unique_ptr<Answer> (*)(OpenAiState& state, wire::Exchange& exchange, Kind kind,
                                               Request request);
std::unique_ptr<Answer> streamed(OpenAiState& state, wire::Exchange& exchange, Kind kind, Request request);
std::unique_ptr<Answer> whole(OpenAiState& state, wire::Exchange& exchange, Kind kind, Request request);

// Sends a request that has been read to its model. `make` makes the Answer.
void answer(OpenAiState& state, wire::Exchange& exchange, Kind kind, Request&& request, MakeAnswer make);

}  // namespace weir::openai
