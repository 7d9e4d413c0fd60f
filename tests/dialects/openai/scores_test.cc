// Scores of texts: rerank, score and classify.
#include "bench.h"

namespace weir::openai {
namespace {

// The bench with a reranker "r" and a classifier of three labels "c", of 20 positions, whose tokens are bytes and whose
// pairs have nothing between them.
class ScoresBench : public OpenaiBench {
 protected:
  ScoresBench() {
    models.add(support::classifier_spec("r", {"LABEL_0"}));
    models.add(support::classifier_spec("c", {"bad", "so-so", "good"}));
    models.add(support::encoder_spec("e"));
    bus.publish(models.catalog);
  }
  Opened ask(const std::string& path, Json body, const std::string& model = "r") {
    body.emplace("model", model);
    return open("POST", path, body.dump());
  }
  Opened rerank(Json body, const std::string& path = "/rerank") {
    body.emplace("query", "q");
    return ask(path, std::move(body));
  }
  static msg::Outputs scores(std::vector<float> values, const char* name = "scores") {
    msg::Outputs out;
    out.tensors.push_back({name,
                           msg::DType::kFp32,
                           {1, int64_t(values.size())},
                           base::Bytes::copy_of({reinterpret_cast<const char*>(values.data()), values.size() * 4})});
    return out;
  }
  // Answers the oldest Call of the model.
  void answer(const std::string& model, msg::Outputs out) {
    auto& there = models[model];
    there.finish(there.held.at(0), {std::move(out)});
    turn();
  }
  // The ids and types of a model's Call.
  static std::string row(const msg::Call& call) {
    std::string out;
    for (const msg::Tensor& tensor : call.inputs) {
      out += out.empty() ? "" : " | ";
      for (size_t i = 0; i < tensor.data.size(); i += 8) {
        int64_t id = 0;
        std::memcpy(&id, tensor.data.data() + i, 8);
        out += tensor.name == "input_ids" ? std::string(1, char(id)) : std::to_string(id);
      }
    }
    return out;
  }
};

TEST_F(ScoresBench, TextsAreRankedAsAListAlone) {
  auto x = rerank({{"texts", {"ab", "c"}}, {"raw_scores", true}, {"return_text", true}, {"truncate", true}});
  answer("r", scores({-2}, "logits")), answer("r", scores({3}, "logits"));
  EXPECT_EQ(json(x), Json::parse(R"([{"index":1,"score":3.0,"text":"c"},{"index":0,"score":-2.0,"text":"ab"}])"));
  auto y = rerank({{"texts", {"ab"}}});
  answer("r", scores({0.5f}));
  EXPECT_EQ(json(y), Json::parse(R"([{"index":0,"score":0.5}])"));
}

TEST_F(ScoresBench, DocumentsAreRankedByTheScoreOfTheirPair) {
  for (const char* path : {"/rerank", "/v1/rerank", "/openai/v1/rerank"}) {
    auto x = rerank({{"documents", {"ab", Json{{"text", "c"}, {"id", 7}}, "d"}}}, path);
    auto& held = models["r"].held;
    ASSERT_EQ(held.size(), 3u);
    EXPECT_EQ(row(*held[0]), "qab | 011");
    EXPECT_EQ(row(*held[1]), "qc | 01");
    answer("r", scores({0.25f})), answer("r", scores({0.75f})), answer("r", scores({0.25f}));
    Json said = json(x);
    EXPECT_TRUE(said["id"].get<std::string>().starts_with("rerank-"));
    said.erase("id");
    EXPECT_EQ(said, Json::parse(R"({"model":"r","results":[{"index":1,"relevance_score":0.75,"document":{"text":"c"}},
        {"index":0,"relevance_score":0.25,"document":{"text":"ab"}},{"index":2,"relevance_score":0.25,"document":{"text":"d"}}],
        "usage":{"prompt_tokens":7,"completion_tokens":0,"total_tokens":7}})"));
  }
}

TEST_F(ScoresBench, TopNAndReturnDocumentsShortenTheAnswer) {
  auto x = rerank({{"documents", {"a", "b"}}, {"top_n", 1}, {"return_documents", false}});
  answer("r", scores({1})), answer("r", scores({2}));
  EXPECT_EQ(json(x)["results"], Json::parse(R"([{"index":1,"relevance_score":2.0}])"));
  auto cohere = rerank({{"documents", {"a"}}}, "/v2/rerank");
  answer("r", scores({1}));
  EXPECT_FALSE(json(cohere)["results"][0].contains("document")) << "Cohere's second API sends none";
  EXPECT_TRUE(json(cohere)["meta"].is_object()) << "and its clients refuse an answer without it";
}

TEST_F(ScoresBench, LogitsAreGivenWhereTheActivationIsOff) {
  auto x = rerank({{"documents", {"a"}}, {"use_activation", false}});
  EXPECT_EQ(models["r"].held.at(0)->outputs, std::vector<std::string>{"logits"});
  answer("r", scores({-7.5f}, "logits"));
  EXPECT_EQ(json(x)["results"][0]["relevance_score"], -7.5);
}

TEST_F(ScoresBench, PairsThatAreTooLongAreCutWhereTheyMayBe) {
  auto x = rerank({{"documents", {std::string(30, 'd')}}});
  EXPECT_EQ(row(*models["r"].held.at(0)).substr(0, 20), "q" + std::string(19, 'd'));
  answer("r", scores({1}));
  EXPECT_EQ(json(x)["usage"]["prompt_tokens"], 20);
  x = ask("/score", {{"text_1", std::string(30, 'a')}, {"text_2", std::string(30, 'b')}});
  EXPECT_EQ(error(x), "400 invalid_request_error context_length_exceeded text_2");
  x = ask("/score",
          {{"text_1", std::string(30, 'a')}, {"text_2", std::string(30, 'b')}, {"truncate_prompt_tokens", 10}});
  EXPECT_EQ(row(*models["r"].held.at(0)).substr(0, 10), "aaaaabbbbb");
  answer("r", scores({1}));
  x = rerank({{"documents", {"dddddd"}}, {"max_tokens_per_doc", 2}});
  EXPECT_EQ(row(*models["r"].held.at(0)).substr(0, 3), "qdd");
  answer("r", scores({1}));
}

TEST_F(ScoresBench, TextsAreScoredOneToOneOneToManyOrInPairs) {
  for (const char* path : {"/score", "/v1/score"}) {
    auto x = ask(path, {{"text_1", "a"}, {"text_2", {"b", "c"}}});
    EXPECT_EQ(row(*models["r"].held.at(1)), "ac | 01");
    answer("r", scores({0.5f})), answer("r", scores({0.25f}));
    EXPECT_EQ(json(x)["data"], Json::parse(R"([{"index":0,"object":"score","score":0.5},
                                              {"index":1,"object":"score","score":0.25}])"));
    EXPECT_EQ(json(x)["object"], "list");
  }
  auto pairs = ask("/score", {{"queries", {"a", "b"}}, {"documents", {"c", "d"}}});
  EXPECT_EQ(row(*models["r"].held.at(1)), "bd | 01");
  answer("r", scores({1})), answer("r", scores({1}));
  for (const char* second : {"items", "data_2"}) {
    auto x = ask("/score", {{"data_1", "a"}, {second, "b"}});
    ASSERT_EQ(models["r"].held.size(), 1u) << x->sent;
    answer("r", scores({1}));
  }
  auto wrong = ask("/score", {{"text_1", {"a", "b"}}, {"text_2", {"c"}}});
  EXPECT_EQ(error(wrong), "400 invalid_request_error - text_2");
  EXPECT_NE(message(wrong).find("1:1, 1:N and N:N"), std::string::npos);
}

TEST_F(ScoresBench, SpecialTokensAreAlwaysAdded) {
  auto x = ask("/classify", {{"input", "ab"}, {"add_special_tokens", true}}, "c");
  ASSERT_EQ(models["c"].held.size(), 1u) << x->sent;
  answer("c", scores({1, 0, 0}));
  EXPECT_EQ(error(ask("/classify", {{"input", "ab"}, {"add_special_tokens", false}}, "c")),
            "400 invalid_request_error - add_special_tokens");
}

TEST_F(ScoresBench, AClassIsTheLabelOfTheBestScore) {
  auto x = ask("/classify", {{"input", {"ab", "c"}}}, "c");
  EXPECT_EQ(row(*models["c"].held.at(0)), "ab");
  answer("c", scores({0.25f, 0.25f, 0.5f})), answer("c", scores({0.5f, 0.25f, 0.25f}));
  EXPECT_EQ(json(x)["data"], Json::parse(R"([{"index":0,"label":"good","probs":[0.25,0.25,0.5],"num_classes":3},
                            {"index":1,"label":"bad","probs":[0.5,0.25,0.25],"num_classes":3}])"));
  auto one = ask("/classify", {{"input", "a"}});
  answer("r", scores({0.5f}));
  EXPECT_EQ(json(one)["data"][0]["label"], "LABEL_0");
}

TEST_F(ScoresBench, PoolingOfTheTaskClassifyHasTheScoresOfAllLabels) {
  auto x = ask("/pooling", {{"input", {"ab", "c"}}, {"task", "classify"}, {"encoding_format", "float"}}, "c");
  answer("c", scores({0.25f, 0.25f, 0.5f})), answer("c", scores({0.5f, 0.25f, 0.25f}));
  Json said = json(x);
  EXPECT_TRUE(said["id"].get<std::string>().starts_with("pool-")) << said;
  EXPECT_EQ(said["object"], "list");
  EXPECT_EQ(said["data"], Json::parse(R"([{"index":0,"object":"pooling","data":[0.25,0.25,0.5]},
                            {"index":1,"object":"pooling","data":[0.5,0.25,0.25]}])"));
  EXPECT_EQ(said["usage"]["total_tokens"], 3);
  const auto refused = [&](Json body, const char* model = "c") {
    body["task"] = "classify";
    return error(ask("/pooling", std::move(body), model));
  };
  EXPECT_EQ(refused({{"input", "a"}, {"encoding_format", "base64"}}), "400 invalid_request_error - encoding_format");
  EXPECT_EQ(refused({{"input", "a"}, {"surprise", 1}}), "400 invalid_request_error - surprise");
  EXPECT_EQ(refused(Json::object()), "400 invalid_request_error - input");
  EXPECT_EQ(refused({{"input", "a"}}, "m"), "400 invalid_request_error - model") << "it makes tokens";
  EXPECT_TRUE(models["c"].held.empty());
}

TEST_F(ScoresBench, TokenIdsAreClassifiedAsTheyAre) {
  auto x = ask("/classify", {{"input", {{97, 98}, {99}}}}, "c");
  EXPECT_EQ(row(*models["c"].held.at(0)), "ab");
  EXPECT_EQ(row(*models["c"].held.at(1)), "c");
  answer("c", scores({0.25f, 0.25f, 0.5f})), answer("c", scores({0.5f, 0.25f, 0.25f}));
  EXPECT_EQ(json(x)["data"][1]["label"], "bad");
  EXPECT_EQ(json(x)["usage"]["total_tokens"], 3);
  auto one = ask("/classify", {{"input", {97, 98, 99}}}, "c");
  EXPECT_EQ(row(*models["c"].held.at(0)), "abc");
  answer("c", scores({1, 0, 0}));
  EXPECT_EQ(json(one)["data"].size(), 1u);
  const Json long_row(std::vector<int>(21, 97));
  for (const Json& input : {Json{70000}, Json{{97}, Json::array()}, Json{{97}, "a"}, Json{97, "a"}, Json{-1}})
    EXPECT_EQ(error(ask("/classify", {{"input", input}}, "c")), "400 invalid_request_error - input") << input;
  EXPECT_EQ(error(ask("/classify", {{"input", long_row}}, "c")),
            "400 invalid_request_error context_length_exceeded input");
  (void)ask("/classify", {{"input", long_row}, {"truncate_prompt_tokens", 2}}, "c");
  EXPECT_EQ(row(*models["c"].held.at(0)), "aa");
}

TEST_F(ScoresBench, AModelThatCannotIsNamedWithWhatItDoes) {
  EXPECT_EQ(error(ask("/rerank", {{"query", "a"}, {"documents", {"b"}}}, "e")), "400 invalid_request_error - model");
  EXPECT_NE(message(ask("/rerank", {{"query", "a"}, {"documents", {"b"}}}, "e")).find("it gives embeddings"),
            std::string::npos);
  EXPECT_EQ(error(ask("/rerank", {{"query", "a"}, {"documents", {"b"}}}, "m")), "400 invalid_request_error - model");
  auto three = ask("/rerank", {{"query", "a"}, {"documents", {"b"}}}, "c");
  EXPECT_EQ(error(three), "400 invalid_request_error - model");
  EXPECT_NE(message(three).find("/classify"), std::string::npos);
  auto embed = ask("/v1/embeddings", {{"input", "a"}});
  EXPECT_EQ(error(embed), "400 invalid_request_error - model");
  EXPECT_NE(message(embed).find("it gives scores of texts"), std::string::npos);
  EXPECT_EQ(error(ask("/rerank", {{"query", "a"}, {"documents", {"b"}}}, "none")),
            "404 invalid_request_error model_not_found model");
}

TEST_F(ScoresBench, WhatIsWrongIsNamed) {
  EXPECT_EQ(error(ask("/rerank", {{"documents", {"b"}}})), "400 invalid_request_error - query");
  EXPECT_EQ(error(rerank({})), "400 invalid_request_error - documents");
  EXPECT_EQ(error(rerank({{"documents", Json::array()}})), "400 invalid_request_error - documents");
  EXPECT_EQ(error(rerank({{"documents", {7}}})), "400 invalid_request_error - documents");
  EXPECT_EQ(error(rerank({{"documents", {Json{{"image", "x"}}}}})), "400 invalid_request_error - documents");
  EXPECT_EQ(error(rerank({{"documents", {"a"}}, {"top_n", -1}})), "400 invalid_request_error - top_n");
  EXPECT_EQ(error(rerank({{"documents", {"a"}}, {"max_chunks_per_doc", 10}})),
            "400 invalid_request_error - max_chunks_per_doc");
  EXPECT_EQ(error(rerank({{"documents", {"a"}}, {"surprise", 1}})), "400 invalid_request_error - surprise");
  EXPECT_EQ(error(rerank({{"documents", std::vector<std::string>(2049, "a")}})),
            "400 invalid_request_error - documents");
  EXPECT_EQ(error(ask("/classify", {{"input", ""}})), "400 invalid_request_error - input");
  EXPECT_TRUE(models["r"].held.empty());
}

TEST_F(ScoresBench, ManyDocumentsAreUnderWayAFewAtATimeAndEndWithTheClient) {
  auto x = rerank({{"documents", std::vector<std::string>(100, "a")}});
  EXPECT_EQ(models["r"].held.size(), 64u);
  answer("r", scores({1}));
  EXPECT_EQ(models["r"].held.size(), 64u);
  x.reset();
  for (msg::Call* call : models["r"].held) EXPECT_TRUE(call->cancelled.load());
}

TEST_F(ScoresBench, AFailureOfOneRowIsTheAnswer) {
  auto x = rerank({{"documents", {"a", "b"}}});
  auto& held = models["r"].held;
  models["r"].finish(held.at(0), {msg::Failed{base::failure(base::Code::kUnavailable, "gone")}});
  turn();
  EXPECT_EQ(x->response.status, 503);
  auto odd = rerank({{"documents", {"a"}}});
  answer("r", scores({1, 2}));
}

}  // namespace
}  // namespace weir::openai
