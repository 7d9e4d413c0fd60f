// An answer in one piece of JSON, when every choice is over.
#include <algorithm>

#include "dialects/openai/answer.h"
#include "dialects/openai/chats/chats.h"
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
    auto text = whole_text(chosen());
    // Where there is no room for a copy it is not stored.
    if (kind_ != Kind::kChat || !chats::are_kept(state_, request_, held_for_answer()) || !gathered_.charge_text())
      return finish_text(std::move(text));
    std::string json;
    (void)text->write(json, SIZE_MAX);
    keep_chat(json);
    finish_written(base::Bytes::adopt(std::move(json)));
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
};

}  // namespace

std::unique_ptr<Answer> whole(OpenAiState& state, Exchange& exchange, Kind kind, Request request) {
  return std::make_unique<Whole>(state, exchange, kind, std::move(request));
}

}  // namespace weir::openai
