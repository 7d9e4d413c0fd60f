// Embeddings, of models of text and of encoders.
#include "bench.h"

namespace weir::openai {
namespace {

using Openais = OpenaiBench;

TEST_F(Openais, EmbeddingsAreListedInOrderAsFloatsOrBase64) {
  auto embed = [&](Json body) {
    body["model"] = "m";
    return open("POST", "/v1/embeddings", body.dump());
  };
  auto vector = [&](float a, float b) {
    float values[2] = {a, b};
    msg::Outputs out;
    out.tensors.push_back({"embedding",
                           msg::DType::kFp32,
                           {2},
                           base::Bytes::copy_of({reinterpret_cast<const char*>(values), sizeof values})});
    return out;
  };
  auto x = embed({{"input", {"a", "bc"}}});
  ASSERT_EQ(inbox().held.size(), 2u);
  EXPECT_EQ(call()->generation->aim, msg::Aim::kEmbed);
  inbox().finish(call(1), {vector(3, 4)});
  inbox().finish(call(0), {vector(1, 2)});
  turn();
  Json said = json(x);
  EXPECT_TRUE(said["id"].get<std::string>().starts_with("embd-"));
  EXPECT_TRUE(said["created"].is_number_unsigned());
  said.erase("id"), said.erase("created");
  EXPECT_EQ(said, Json::parse(R"({"object":"list","data":[{"object":"embedding","index":0,"embedding":[1.0,2.0]},
      {"object":"embedding","index":1,"embedding":[3.0,4.0]}],"model":"m","usage":{"prompt_tokens":3,"total_tokens":3}})"));
  auto y = embed({{"input", Json::parse("[97]")}, {"encoding_format", "base64"}});
  inbox().finish(call(), {vector(1, 2)});
  turn();
  EXPECT_EQ(json(y)["data"][0]["embedding"], "AACAPwAAAEA=");
  EXPECT_EQ(error(embed({{"input", "a"}, {"dimensions", 3}})), "400 invalid_request_error - dimensions");
  EXPECT_EQ(error(embed({{"input", ""}})), "400 invalid_request_error - input");
  EXPECT_EQ(error(embed({{"input", std::string(201, 'a')}})),
            "400 invalid_request_error context_length_exceeded input");
}

TEST_F(Openais, AnEmbeddingOfMessagesIsOfTheTemplatesText) {
  const auto embed = [&](Json body) {
    body["model"] = "m";
    body.emplace("messages", Json::parse(R"([{"role":"user","content":"hi"}])"));
    return open("POST", "/v1/embeddings", body.dump());
  };
  const auto prompt = [&](Json body) {
    auto x = embed(std::move(body));
    if (inbox().held.empty()) return x->sent;
    EXPECT_EQ(call()->generation->aim, msg::Aim::kEmbed);
    std::string out = support::prompt_of(*call());
    models.finish_all();
    turn();
    return out;
  };
  EXPECT_EQ(prompt(Json::object()), "user:hi\n") << "there is no answer to come";
  EXPECT_EQ(prompt({{"add_generation_prompt", true}}), "user:hi\nassistant:");
  EXPECT_EQ(error(embed({{"input", "a"}})), "400 invalid_request_error - messages");
  EXPECT_EQ(error(embed({{"messages", "x"}})), "400 invalid_request_error - messages");
  EXPECT_EQ(error(embed({{"messages", {{{"role", "user"}, {"content", std::string(300, 'x')}}}}})),
            "400 invalid_request_error context_length_exceeded messages");
  const std::string image =
      R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD"}}]}])";
  auto pictured = embed({{"messages", Json::parse(image)}});
  EXPECT_EQ(error(pictured), "400 invalid_request_error - messages") << "it would be an embedding of less";
  EXPECT_TRUE(inbox().held.empty());
  models.add(support::encoder_spec("e"));
  bus.publish(models.catalog);
  auto x = open("POST", "/v1/embeddings", R"({"model":"e","messages":[{"role":"user","content":"hi"}]})");
  ASSERT_EQ(models["e"].held.size(), 1u) << x->sent;
  EXPECT_NE(models["e"].seen.back().find("INT64 [1,8]"), std::string::npos) << models["e"].seen.back();
}

TEST_F(Openais, PoolingIsInVllmsForm) {
  const auto pool = [&](Json body) {
    body.emplace("model", "m");
    return open("POST", "/pooling", body.dump());
  };
  const auto data = [&](Json body) {
    auto x = pool(std::move(body));
    if (inbox().held.empty()) return Json(x->sent);
    const float values[2] = {3, 4};
    msg::Outputs out;
    out.tensors.push_back(
        {"e", msg::DType::kFp32, {2}, base::Bytes::copy_of({reinterpret_cast<const char*>(values), sizeof values})});
    inbox().finish(call(), {std::move(out)});
    turn();
    return json(x);
  };
  Json said = data({{"input", "ab"}, {"task", "embed"}});
  EXPECT_TRUE(said["id"].get<std::string>().starts_with("pool-")) << said;
  said.erase("id"), said.erase("created");
  EXPECT_EQ(said,
            Json::parse(R"({"object":"list","data":[{"object":"pooling","index":0,"data":[3.0,4.0]}],"model":"m",)"
                        R"("usage":{"prompt_tokens":2,"total_tokens":2}})"));
  EXPECT_EQ(data({{"input", "a"}, {"use_activation", true}})["data"][0]["data"], Json::parse("[0.6,0.8]"));
  EXPECT_EQ(data({{"input", "a"}, {"use_activation", false}})["data"][0]["data"], Json::parse("[3.0,4.0]"));
  EXPECT_EQ(data({{"input", "a"}, {"encoding_format", "base64"}})["data"][0]["data"], "AABAQAAAgEA=");
  EXPECT_EQ(data({{"messages", Json::parse(R"([{"role":"user","content":"hi"}])")}})["usage"]["prompt_tokens"], 8);
  EXPECT_EQ(error(pool({{"input", "a"}, {"task", "token_embed"}})), "400 invalid_request_error - task");
  EXPECT_EQ(error(pool({{"input", "a"}, {"task", 3}})), "400 invalid_request_error - task");
  EXPECT_EQ(error(pool({{"input", "a"}, {"use_activation", 1}})), "400 invalid_request_error - use_activation");
  EXPECT_EQ(error(pool({{"input", "a"}, {"data", 1}})), "400 invalid_request_error - data");
  EXPECT_EQ(error(pool(Json::object())), "400 invalid_request_error - input");
  EXPECT_EQ(error(pool({{"input", "a"}, {"model", "q"}})), "404 invalid_request_error model_not_found model");
  EXPECT_EQ(open("GET", "/pooling")->response.status, 405);
  models.add(support::encoder_spec("e"));
  bus.publish(models.catalog);
  EXPECT_EQ(error(pool({{"input", "a"}, {"model", "e"}, {"use_activation", false}})),
            "400 invalid_request_error - use_activation");
}

TEST_F(Openais, ManyEmbeddingsAreUnderWayAFewAtATime) {
  std::vector<std::string> many(40, "a");
  auto x = open("POST", "/v1/embeddings", Json({{"model", "m"}, {"input", many}}).dump());
  EXPECT_EQ(inbox().held.size(), 16u);
  float values[2] = {1, 2};
  for (int i = 0; i < 40; ++i) {
    msg::Outputs out;
    out.tensors.push_back(
        {"e", msg::DType::kFp32, {2}, base::Bytes::copy_of({reinterpret_cast<const char*>(values), sizeof values})});
    inbox().finish(call(), {std::move(out)});
    turn();
  }
  EXPECT_EQ(json(x)["data"].size(), 40u);
}

// The bench with an encoder beside its models.
class Encoders : public OpenaiBench {
 protected:
  Encoders() {
    models.add(support::encoder_spec("e"));
    bus.publish(models.catalog);
  }
  support::ScriptedInbox& encoder() { return models["e"]; }
  Opened embed(Json body) {
    body["model"] = "e";
    return open("POST", "/v1/embeddings", body.dump());
  }
  static msg::Outputs vector(std::vector<float> values) {
    msg::Outputs out;
    out.tensors.push_back({"sentence_embedding",
                           msg::DType::kFp32,
                           {1, int64_t(values.size())},
                           base::Bytes::copy_of({reinterpret_cast<const char*>(values.data()), values.size() * 4})});
    return out;
  }
};

TEST_F(Encoders, EachTextIsARowOfIdsOfItsOwn) {
  auto x = embed({{"input", {"ab", "c"}}});
  EXPECT_EQ(encoder().seen, (std::vector<std::string>{"e/1 rows=1 | input_ids INT64 [1,2] [97,98]",
                                                      "e/1 rows=1 | input_ids INT64 [1,1] [99]"}));
  encoder().finish(encoder().held[1], {vector({0, 0, 0, 1})});
  encoder().finish(encoder().held[0], {vector({1, 0, 0, 0})});
  turn();
  Json all = json(x);
  EXPECT_EQ(all["data"][0]["embedding"], Json({1, 0, 0, 0}));
  EXPECT_EQ(all["data"][1]["embedding"], Json({0, 0, 0, 1}));
  EXPECT_EQ(all["usage"], Json::parse(R"({"prompt_tokens":3,"total_tokens":3})"));
  EXPECT_EQ(x->record().version, "1");
  EXPECT_EQ(x->record().compute, std::chrono::microseconds(30)) << "they ran side by side";
  auto y = embed({{"input", Json::parse("[[1,2,3],[4]]")}, {"encoding_format", "base64"}, {"dimensions", 2}});
  encoder().finish(encoder().held[0], {vector({0.6f, 0, 0.8f, 0})});
  encoder().finish(encoder().held[0], {vector({0, 0.5f, 0, 0.1f})});
  turn();
  EXPECT_EQ(json(y)["data"][0]["embedding"], "AACAPwAAAAA=") << "of length 1 again";
  EXPECT_EQ(json(y)["data"][1]["embedding"], "AAAAAAAAgD8=");
}

TEST_F(Encoders, ManyTextsWaitTogetherForBatches) {
  std::vector<std::string> many(300, "a");
  auto x = embed({{"input", many}});
  EXPECT_EQ(encoder().held.size(), 64u);
  for (int i = 0; i < 300; ++i) {
    encoder().finish(encoder().held[0], {vector({1, 0, 0, 0})});
    turn();
  }
  EXPECT_EQ(json(x)["data"].size(), 300u);
}

TEST_F(Encoders, WhatDoesNotFitIsRefusedByName) {
  EXPECT_EQ(error(embed({{"input", "a"}, {"dimensions", 5}})), "400 invalid_request_error - dimensions");
  EXPECT_EQ(error(embed({{"input", ""}})), "400 invalid_request_error - input");
  EXPECT_EQ(error(embed({{"input", Json::parse("[260]")}})), "400 invalid_request_error - input");
  EXPECT_EQ(error(embed({{"input", std::string(201, 'a')}})),
            "400 invalid_request_error context_length_exceeded input");
  EXPECT_EQ(error(open("POST", "/v1/chat/completions", R"({"model":"e","messages":[{"role":"user","content":"hi"}]})")),
            "400 invalid_request_error - model");
}

TEST_F(Encoders, TruncatedTextsKeepTheirBeginning) {
  auto x = embed({{"input", {"abcdef", Json::parse("[1,2,3,4,5,6,7]")}}, {"truncate_prompt_tokens", 3}});
  EXPECT_EQ(encoder().seen, (std::vector<std::string>{"e/1 rows=1 | input_ids INT64 [1,3] [97,98,99]",
                                                      "e/1 rows=1 | input_ids INT64 [1,3] [1,2,3]"}));
  auto y = embed({{"input", "abc" + std::string(100'000, 'x')}, {"truncate_prompt_tokens", 4}});
  EXPECT_EQ(encoder().seen.back(), "e/1 rows=1 | input_ids INT64 [1,4] [97,98,99,120]") << "of any length";
}

TEST_F(Encoders, AreListedAndTokenizeTheirTexts) {
  Json list = json(open("GET", "/v1/models"))["data"];
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0]["id"], "e");
  EXPECT_EQ(list[0]["embedding_size"], 4);
  EXPECT_EQ(json(open("POST", "/tokenize", R"({"model":"e","prompt":"ab"})"))["tokens"], Json({97, 98}));
  EXPECT_EQ(json(open("POST", "/detokenize", R"({"model":"e","tokens":[97,98]})"))["prompt"], "ab");
}

TEST_F(Encoders, WithoutATokenizerTakeIdsAlone) {
  auto spec = support::encoder_spec("e");
  auto bare = std::make_shared<msg::TextSpec>(*spec.encoder);
  bare->codec = nullptr;
  spec.encoder = bare;
  models.add(spec);
  bus.publish(models.catalog);
  EXPECT_EQ(error(embed({{"input", "a"}})), "400 invalid_request_error - input");
  EXPECT_EQ(error(open("POST", "/tokenize", R"({"model":"e","prompt":"ab"})")), "400 invalid_request_error - model");
  auto x = embed({{"input", Json::parse("[7]")}});
  EXPECT_EQ(encoder().seen.size(), 1u);
}

}  // namespace
}  // namespace weir::openai
