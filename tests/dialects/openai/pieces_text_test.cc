// Answers that are written while their peer takes them, also where one choice is all of it.
#include "dialects/openai/pieces_text.h"

#include "bench.h"

namespace weir::openai {
namespace {

TEST(PiecesText, GivesOutLongPartsInStretchesOfTheTarget) {
  const std::string list(10'000, 'x');
  PiecesText text(3, [&](size_t piece, SplicedText& out) {
    out.own += '<' + std::to_string(piece);
    if (piece < 2) out.splice(list);
    out.splice({});
    out.own += '>';
  });
  std::string all;
  for (bool more = true; more;) {
    std::string some;
    more = text.write(some, 1000);
    EXPECT_LE(some.size(), 1000u);
    all += some;
  }
  EXPECT_EQ(all, "<0" + list + "><1" + list + "><2>");
}

TEST(PiecesText, IsWrittenAtOnceWithoutATarget) {
  PiecesText text(2, [](size_t piece, SplicedText& out) {
    out.splice(piece == 0 ? "first," : "second,");
    out.own += '-';
  });
  std::string all;
  EXPECT_FALSE(text.write(all, SIZE_MAX));
  EXPECT_EQ(all, "first,-second,-");
}

class LongChoices : public OpenaiBench {
 protected:
  LongChoices() { models.add(support::text_spec("long", 20'000)); }
  // With 20 alternatives of each token, more than 2 MiB of JSON.
  Opened ask(std::string path, Json body) {
    body["model"] = "long";
    auto x = open("POST", std::move(path), body.dump());
    x->reads = false;
    EXPECT_EQ(longs().held.size(), 1u) << x->sent;
    std::vector<msg::TokenLogprob> top;
    for (uint32_t id = 'a'; id < 'a' + 20; ++id) top.push_back({id, -1.25F});
    ScriptedAnswer answer{longs(), longs().held.at(0)};
    for (int token = 0; token < kTokens; ++token) answer.token('c', likely(-1, top));
    answer.done();
    turn();
    return x;
  }
  support::ScriptedInbox& longs() { return models["long"]; }
  // At first and then each time no more than what is written ahead of the peer.
  static void expect_pieces(const Opened& x) {
    EXPECT_FALSE(x->ended);
    EXPECT_EQ(x->response.status, 200);
    EXPECT_LT(x->sent.size(), 1'500'000u);
    while (!x->ended) {
      const size_t before = x->sent.size();
      x->fake_backlog = 0, x->listener()->on_drain(*x);
      ASSERT_LT(x->sent.size(), before + 500'000);
    }
    EXPECT_GT(x->sent.size(), size_t(2) << 20);
  }

  static constexpr int kTokens = 12'000;
};

TEST_F(LongChoices, OfOpenAiAreWrittenInPieces) {
  auto x = ask("/v1/completions", {{"prompt", "ab"}, {"logprobs", 20}, {"max_tokens", kTokens}});
  expect_pieces(x);
  const Json choice = json(x)["choices"][0];
  EXPECT_EQ(choice["text"], std::string(kTokens, 'c'));
  for (const char* list : {"text_offset", "token_logprobs", "tokens", "top_logprobs"})
    EXPECT_EQ(choice["logprobs"][list].size(), size_t(kTokens)) << list;

  const Json messages = {{{"role", "user"}, {"content", "hi"}}};
  auto chat = ask("/v1/chat/completions",
                  {{"messages", messages}, {"logprobs", true}, {"top_logprobs", 20}, {"max_tokens", kTokens}});
  expect_pieces(chat);
  EXPECT_EQ(json(chat)["choices"][0]["logprobs"]["content"].size(), size_t(kTokens));
}

TEST_F(LongChoices, OfSglangAndTgiAreWrittenInPieces) {
  auto x = ask("/generate", {{"text", "ab"},
                             {"return_logprob", true},
                             {"top_logprobs_num", 20},
                             {"sampling_params", {{"max_new_tokens", kTokens}}}});
  expect_pieces(x);
  EXPECT_EQ(json(x)["meta_info"]["output_top_logprobs"].size(), size_t(kTokens));

  auto y = ask("/generate", {{"inputs", "ab"},
                             {"parameters", {{"details", true}, {"top_n_tokens", 5}, {"max_new_tokens", kTokens}}}});
  expect_pieces(y);
  EXPECT_EQ(json(y)["details"]["tokens"].size(), size_t(kTokens));
  EXPECT_EQ(json(y)["details"]["top_tokens"].size(), size_t(kTokens));
}

TEST_F(LongChoices, OfLlamaCppAreWrittenInPieces) {
  auto x = ask("/completion", {{"prompt", "ab"}, {"n_probs", 20}, {"n_predict", kTokens}});
  expect_pieces(x);
  EXPECT_EQ(json(x)["content"], std::string(kTokens, 'c'));
  EXPECT_EQ(json(x)["completion_probabilities"].size(), size_t(kTokens));
}

}  // namespace
}  // namespace weir::openai
