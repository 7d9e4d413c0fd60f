// /generative_scoring: how likely tokens are behind texts.
#include <cmath>

#include "bench.h"

namespace weir::openai {
namespace {

class GenerativeScores : public OpenaiBench {
 protected:
  Opened ask(Json body) {
    body.emplace("model", "m");
    body.emplace("query", "ab");
    body.emplace("items", Json{"c", "de"});
    body.emplace("label_token_ids", Json{121, 110});
    return open("POST", "/generative_scoring", body.dump());
  }
  // The oldest Call is over: the label has that probability.
  void answer(double probability) {
    scripted().prompt(uint32_t(call()->generation->append.size() - 1), *likely(float(std::log(probability))));
    scripted().done();
    turn();
  }
  std::vector<std::string> asked() {
    std::vector<std::string> out;
    for (const msg::Call* one : inbox().held) out.push_back(support::prompt_of(*one));
    return out;
  }
  using Texts = std::vector<std::string>;
};

TEST_F(GenerativeScores, AreOfTheFirstLabelAmongAll) {
  auto x = ask(Json::object());
  EXPECT_EQ(asked(), (Texts{"abcy", "abdey", "abcn", "abden"}));
  EXPECT_EQ(call()->generation->max_tokens, 0u);
  ASSERT_EQ(call()->generation->logprobs.size(), 1u);
  EXPECT_EQ(call()->generation->logprobs[0].start, 3u);
  EXPECT_EQ(call()->generation->logprobs[0].end, 4u);
  for (double probability : {0.3, 0.2, 0.1, 0.6}) answer(probability);
  Json said = json(x);
  EXPECT_TRUE(said["id"].get<std::string>().starts_with("generative-scoring-")) << said;
  EXPECT_EQ(said["object"], "list");
  EXPECT_EQ(said["model"], "m");
  ASSERT_EQ(said["data"].size(), 2u);
  EXPECT_EQ(said["data"][1]["index"], 1);
  EXPECT_EQ(said["data"][1]["object"], "score");
  EXPECT_NEAR(said["data"][0]["score"].get<double>(), 0.75, 1e-6);
  EXPECT_NEAR(said["data"][1]["score"].get<double>(), 0.25, 1e-6);
  EXPECT_EQ(said["usage"], Json::parse(R"({"prompt_tokens":7,"completion_tokens":0,"total_tokens":7})"));
}

TEST_F(GenerativeScores, SglangsTellEveryLabel) {
  const Json body{{"model", "m"}, {"query", "ab"}, {"items", {"c", "de"}}, {"label_token_ids", {121, 110}}};
  auto plain = open("POST", "/v1/score", body.dump());
  EXPECT_EQ(asked(), (Texts{"abcy", "abdey", "abcn", "abden"}));
  for (double probability : {0.3, 0.2, 0.1, 0.6}) answer(probability);
  Json said = json(plain);
  EXPECT_EQ(said["object"], "scoring");
  EXPECT_EQ(said["model"], "m");
  ASSERT_EQ(said["scores"].size(), 2u) << said;
  const double expected[2][2] = {{0.3, 0.1}, {0.2, 0.6}};
  for (size_t item : {0, 1})
    for (size_t label : {0, 1}) EXPECT_NEAR(said["scores"][item][label].get<double>(), expected[item][label], 1e-6);
  EXPECT_EQ(said["usage"], Json::parse(R"({"prompt_tokens":7,"completion_tokens":0,"total_tokens":7})"));

  Json among = body;
  among["apply_softmax"] = true;
  auto x = open("POST", "/score", among.dump());
  for (double probability : {0.3, 0.2, 0.1, 0.6}) answer(probability);
  EXPECT_NEAR(json(x)["scores"][0][0].get<double>(), 0.75, 1e-6);
  EXPECT_NEAR(json(x)["scores"][0][1].get<double>(), 0.25, 1e-6);
  EXPECT_NEAR(json(x)["scores"][1][1].get<double>(), 0.75, 1e-6);
}

TEST_F(GenerativeScores, AreOfTheVocabularyWhereTheyAreToBe) {
  auto x = ask({{"apply_softmax", false}, {"item_first", true}, {"query", {97, 98}}, {"items", {{99}, {100, 101}}}});
  EXPECT_EQ(asked(), (Texts{"caby", "deaby"})) << "other labels change nothing";
  answer(0.5), answer(0.25);
  EXPECT_NEAR(json(x)["data"][0]["score"].get<double>(), 0.5, 1e-6);
  EXPECT_NEAR(json(x)["data"][1]["score"].get<double>(), 0.25, 1e-6);
}

TEST_F(GenerativeScores, AFewCallsAreUnderWayAtOnce) {
  auto x = ask({{"items", std::vector<std::string>(40, "c")}});
  for (int i = 0; i < 80; ++i) {
    ASSERT_EQ(inbox().held.size(), std::min<size_t>(16, size_t(80 - i)));
    answer(0.5);
  }
  EXPECT_EQ(json(x)["data"].size(), 40u);
}

TEST_F(GenerativeScores, OfAClientThatLeavesAreStopped) {
  auto x = ask({{"items", std::vector<std::string>(40, "c")}});
  x.reset();
  turn();
  EXPECT_TRUE(call()->cancelled.load());
  EXPECT_EQ(inbox().held.size(), 16u);
}

TEST_F(GenerativeScores, AFailureIsTheAnswer) {
  auto x = ask(Json::object());
  scripted().fail(base::Code::kUnavailable, "gone");
  turn();
  EXPECT_EQ(x->response.status, 503);
  auto y = ask(Json::object());
  for (auto* one : inbox().held)
    if (!one->cancelled) {
      ScriptedAnswer(inbox(), one).done();
      break;
    }
  turn();
  EXPECT_EQ(y->response.status, 500) << "there is no probability";
}

TEST_F(GenerativeScores, ARequestThatIsWrongIsRefused) {
  const auto refused = [&](Json body) {
    const std::string all = error(ask(std::move(body)));
    return all.substr(all.rfind(' ') + 1);
  };
  EXPECT_EQ(refused({{"query", nullptr}}), "query");
  EXPECT_EQ(refused({{"query", {"a", "b"}}}), "query");
  EXPECT_EQ(refused({{"items", Json::array()}}), "items");
  EXPECT_EQ(refused({{"items", {{300}}}}), "items");
  EXPECT_EQ(refused({{"items", {std::string(198, 'a')}}}), "items") << "the label has no place";
  EXPECT_EQ(refused({{"items", std::vector<std::string>(2049, "a")}}), "items");
  EXPECT_EQ(refused({{"items", std::vector<std::string>(2048, "a")}, {"label_token_ids", {1, 2, 3, 4, 5}}}), "items");
  EXPECT_EQ(refused({{"query", ""}, {"items", {""}}}), "items");
  EXPECT_EQ(refused({{"label_token_ids", Json::array()}}), "label_token_ids");
  EXPECT_EQ(refused({{"label_token_ids", {260}}}), "label_token_ids");
  EXPECT_EQ(refused({{"label_token_ids", std::vector<int>(65, 1)}}), "label_token_ids");
  EXPECT_EQ(refused({{"apply_sofmax", true}}), "apply_sofmax");
  EXPECT_EQ(refused({{"request_id", "a b"}}), "request_id");
  EXPECT_EQ(refused({{"model", "q"}}), "model");
  EXPECT_TRUE(inbox().held.empty());
}

}  // namespace
}  // namespace weir::openai
