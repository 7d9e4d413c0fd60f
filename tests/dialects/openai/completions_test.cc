#include "bench.h"

namespace weir::openai {
namespace {

using Completions = OpenaiBench;

TEST_F(Completions, TextLogprobsHaveOffsetsAndTheFirstOfAnEchoHasNone) {
  auto x = complete({{"echo", true}, {"logprobs", 1}, {"max_tokens", 1}, {"prompt", "aé"}});
  EXPECT_EQ(call()->generation->logprobs[0].start, 0u);
  auto v = scripted();
  v.prompt(0, {});
  v.prompt(1, *likely(-1));
  v.prompt(2, *likely(-2));
  v.token('b', likely(-3, {{'c', -0.5F}}));
  v.done();
  turn();
  Json choice = json(x)["choices"][0];
  EXPECT_EQ(choice["text"], "aéb");
  EXPECT_EQ(choice["logprobs"]["tokens"], Json({"a", "bytes:\\xc3", "bytes:\\xa9", "b"}));
  EXPECT_EQ(choice["logprobs"]["text_offset"], Json({0, 1, 2, 2}));
  EXPECT_EQ(choice["logprobs"]["token_logprobs"], Json::parse("[null,-1.0,-2.0,-3.0]"));
  EXPECT_EQ(choice["logprobs"]["top_logprobs"][3], Json::parse(R"({"b":-3.0,"c":-0.5})"));
  const size_t tops = x->sent.find("top_logprobs");
  EXPECT_LT(x->sent.find(R"("b":)", tops), x->sent.find(R"("c":)", tops)) << "the token itself stands first";
}

TEST_F(Completions, EchoWithoutTokensScoresThePrompt) {
  auto x = complete({{"echo", true}, {"logprobs", 0}, {"max_tokens", 0}});
  EXPECT_EQ(call()->generation->max_tokens, 0u);
  auto v = scripted();
  v.prompt(0, {});
  v.prompt(1, *likely(-1.25F));
  v.done();
  turn();
  Json answer = json(x);
  EXPECT_EQ(answer["choices"][0]["text"], "ab");
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(answer["choices"][0]["logprobs"]["token_logprobs"], Json::parse("[null,-1.25]"));
  EXPECT_EQ(answer["usage"]["completion_tokens"], 0);
}

TEST_F(Completions, IndexIsPromptTimesNPlusChoice) {
  auto x = complete({{"prompt", {"a", "b"}}, {"n", 2}, {"max_tokens", 1}});
  ASSERT_EQ(inbox().held.size(), 4u);
  EXPECT_EQ(support::prompt_of(*call(1)), "a");
  EXPECT_EQ(support::prompt_of(*call(2)), "b");
  for (int i = 0; i < 4; ++i) scripted(size_t(i)).emit(std::to_string(i));
  while (!inbox().held.empty()) scripted().done();
  turn();
  Json answer = json(x);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(answer["choices"][size_t(i)]["text"], std::to_string(i));
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 2);
}

TEST_F(Completions, TheLikeliestOfSeveralAreAnswered) {
  auto x = complete({{"prompt", {"a", "b"}}, {"n", 2}, {"best_of", 3}, {"max_tokens", 2}});
  ASSERT_EQ(inbox().held.size(), 6u) << x->sent;
  EXPECT_EQ(call()->generation->logprobs.size(), 1u) << "they tell which those are";
  const float logprobs[] = {-3, -1, -2, -1, -2, -3};
  for (size_t i = 0; i < 6; ++i) {
    scripted(i).token('0' + uint32_t(i), likely(logprobs[i]));
    if (i == 1) scripted(i).token('!', likely(-1.5F));  // the length does not count
  }
  while (!inbox().held.empty()) scripted().done();
  turn();
  const Json answer = json(x);
  std::string texts;
  for (const Json& choice : answer["choices"]) {
    EXPECT_EQ(choice["index"], texts.empty() ? 0 : int(std::count(texts.begin(), texts.end(), ' ')));
    EXPECT_EQ(choice["logprobs"], Json());
    texts += choice["text"].get<std::string>() + ' ';
  }
  EXPECT_EQ(texts, "1! 2 3 4 ");
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 2);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 7) << "all that were made";
}

TEST_F(Completions, BestOfHasBounds) {
  EXPECT_EQ(error(complete({{"best_of", 1}, {"n", 2}})), "400 invalid_request_error - best_of");
  EXPECT_EQ(error(complete({{"best_of", 2}, {"stream", true}})), "400 invalid_request_error - best_of");
  EXPECT_EQ(error(complete({{"best_of", 21}})), "400 invalid_request_error - best_of");
}

TEST_F(Completions, PromptsMayBeTokenIds) {
  auto x = complete({{"prompt", Json::parse("[[97,98],[99]]")}, {"echo", true}, {"return_token_ids", true}});
  EXPECT_EQ(support::prompt_of(*call(0)), "ab");
  scripted(0).done();
  scripted(0).done();
  turn();
  Json answer = json(x);
  EXPECT_EQ(answer["choices"][0]["text"], "ab");
  EXPECT_EQ(answer["choices"][1]["prompt_token_ids"], Json({99}));
}

TEST_F(Completions, AListOfTextsIsNoPrompt) {
  for (const char* bad : {R"([["a","b"]])", R"(["a",["b"]])", R"([[97],["b"]])"})
    EXPECT_EQ(error(complete({{"prompt", Json::parse(bad)}})), "400 invalid_request_error - prompt") << bad;
  EXPECT_TRUE(inbox().held.empty());
  auto x = complete({{"prompt", Json::parse(R"([[97,"b"],["c",100]])")}, {"max_tokens", 1}});
  ASSERT_EQ(inbox().held.size(), 2u) << x->sent;
  EXPECT_EQ(support::prompt_of(*call(0)), "ab") << "llama.cpp's server has these here, too";
  EXPECT_EQ(support::prompt_of(*call(1)), "cd");
  scripted(0).done();
  scripted(0).done();
  turn();
}

TEST_F(Completions, PromptLogprobsAreVllms) {
  auto x = complete({{"prompt_logprobs", 1}, {"max_tokens", 1}});
  auto v = scripted();
  v.prompt(0, {});
  v.prompt(1, *likely(-2, {{'z', -1}}));
  v.emit("c");
  v.done();
  turn();
  Json choice = json(x)["choices"][0];
  EXPECT_TRUE(choice["prompt_logprobs"][0].is_null());
  EXPECT_EQ(choice["prompt_logprobs"][1],
            Json::parse(
                R"({"122":{"logprob":-1.0,"rank":1,"decoded_token":"z"},"98":{"logprob":-2.0,"decoded_token":"b"}})"));
  EXPECT_TRUE(choice["logprobs"].is_null());
}

// The model finds as many alternatives as the larger of the two asks for.
TEST_F(Completions, LogprobsOfThePromptAndOfTheAnswerHaveTheirOwnNumberOfAlternatives) {
  struct Case {
    uint32_t answer, prompt;
  };
  for (Case c : {Case{1, 3}, Case{3, 1}, Case{0, 2}}) {
    auto x = complete({{"logprobs", c.answer}, {"prompt_logprobs", c.prompt}, {"echo", true}, {"max_tokens", 1}});
    EXPECT_EQ(call()->generation->top_logprobs, std::max(c.answer, c.prompt));
    const auto details = [&](char own) {
      std::vector<msg::TokenLogprob> top{{uint32_t(own), -1}, {'y', -2}, {'z', -3}};
      top.resize(std::max(c.answer, c.prompt));
      return likely(-1, top);
    };
    auto v = scripted();
    v.prompt(0, {});
    v.prompt(1, *details('b'));
    v.token('c', details('c'));
    v.done();
    turn();
    Json choice = json(x)["choices"][0];
    EXPECT_EQ(choice["prompt_logprobs"][1].size(), c.prompt);
    for (size_t i : {1, 2}) EXPECT_EQ(choice["logprobs"]["top_logprobs"][i].size(), std::max(c.answer, 1u)) << i;
  }
}

TEST_F(Completions, StreamBeginsWithTheEchoAndEndsWithTheReason) {
  auto x = complete({{"stream", true}, {"echo", true}});
  EXPECT_EQ(call()->generation->max_tokens, 16u);
  auto v = scripted();
  v.emit("cd");
  v.done();
  turn();
  auto all = events(x);
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0]["object"], "text_completion");
  EXPECT_EQ(all[0]["choices"][0]["text"], "abc");
  EXPECT_EQ(all[2]["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(text(all), "abcd");
}

TEST_F(Completions, OnlyTheLastTokensOfATruncatedPromptAreKept) {
  auto x = complete({{"prompt", "abcdef"}, {"truncate_prompt_tokens", 2}});
  EXPECT_EQ(support::prompt_of(*call()), "ef");
}

TEST_F(Completions, OrTheFirstWhereTheSideSaysSo) {
  for (const auto& [side, kept] : {std::pair{"right", "ab"}, {"left", "ef"}}) {
    auto x = complete({{"prompt", "abcdef"}, {"truncate_prompt_tokens", 2}, {"truncation_side", side}});
    ASSERT_EQ(inbox().held.size(), 1u) << x->sent;
    EXPECT_EQ(support::prompt_of(*call()), kept);
    scripted().end();
    turn();
  }
  auto text = complete(
      {{"prompt", "ab" + std::string(20'000, 'x')}, {"truncate_prompt_tokens", 3}, {"truncation_side", "right"}});
  EXPECT_EQ(support::prompt_of(*call()), "abx") << "of a text that is longer than the context, too";
  EXPECT_EQ(error(complete({{"truncation_side", "middle"}})), "400 invalid_request_error - truncation_side");
}

TEST_F(Completions, SamplingReachesTheEngine) {
  auto x = complete(Json::parse(R"({"top_k":5,"top_p":0.5,"min_p":0.1,"presence_penalty":1,"frequency_penalty":-1,
      "repetition_penalty":1.5,"logit_bias":{"97":-100},"min_tokens":2,"ignore_eos":true,"seed":-1,"priority":3,
      "cache_salt":"s","request_id":"r-1","user":"u","metadata":{"a":"1"},"best_of":1,"suffix":null,"stream":null})"));
  const auto& g = *call()->generation;
  EXPECT_EQ(g.sampling.top_k, 5u);
  EXPECT_EQ(g.sampling.top_p, 0.5F);
  EXPECT_EQ(g.sampling.min_p, 0.1F);
  EXPECT_EQ(g.sampling.presence_penalty, 1);
  EXPECT_EQ(g.sampling.frequency_penalty, -1);
  EXPECT_EQ(g.sampling.repetition_penalty, 1.5F);
  ASSERT_EQ(g.sampling.logit_bias.size(), 1u);
  EXPECT_EQ(g.sampling.logit_bias[0].second, -100);
  EXPECT_EQ(g.min_tokens, 2u);
  EXPECT_TRUE(g.ignore_eos);
  EXPECT_EQ(g.sampling.seed, ~uint64_t(0));
  EXPECT_EQ(call()->priority, 3u);
  EXPECT_NE(g.cache_salt, 0u);
  scripted().done();
  turn();
  EXPECT_EQ(json(x)["id"], "cmpl-r-1");
}

TEST_F(Completions, ASuffixIsFilledInWithTheModelsTokens) {
  struct Case {
    std::vector<std::string> tokens;
    std::string prompt;
  };
  const Case cases[] = {{{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"}, "<260>ab<261>cd<262>"},
                        {{"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"}, "<260>ab<261>cd<262>"},
                        {{"[PREFIX]", "[SUFFIX]"}, "<261>cd<260>ab"}};
  for (const Case& c : cases) {
    const std::string name = c.tokens[0].substr(0, 5) == "<|fim" ? "a" : c.tokens[0][0] == '[' ? "b" : "c";
    models.add(support::tools_spec(name, "", c.tokens));
    auto x = complete({{"model", name}, {"suffix", "cd"}});
    ASSERT_EQ(models[name].held.size(), 1u) << x->sent;
    EXPECT_EQ(support::prompt_of(*models[name].held[0]), c.prompt);
    EXPECT_EQ(error(complete({{"model", name}, {"suffix", "cd"}, {"prompt", {1, 2}}})),
              "400 invalid_request_error - suffix");
    EXPECT_EQ(error(complete({{"model", name}, {"suffix", "cd"}, {"echo", true}})),
              "400 invalid_request_error - suffix");
    EXPECT_EQ(error(complete({{"model", name}, {"suffix", std::string(3000, 'x')}})),
              "400 invalid_request_error context_length_exceeded prompt");
  }
  EXPECT_EQ(message(complete({{"suffix", "cd"}})), "suffix: this model has no tokens for filling in");
  auto plain = complete({{"suffix", ""}});
  EXPECT_EQ(support::prompt_of(*call()), "ab") << "nothing is to be filled in";
}

}  // namespace
}  // namespace weir::openai
