// Embeddings as clients of Text Embeddings Inference and of Cohere ask for them.
#include "bench.h"

namespace weir::openai {
namespace {

class EmbedRequests : public OpenaiBench {
 protected:
  EmbedRequests() {
    models.add(support::encoder_spec("e"));
    bus.publish(models.catalog);
  }
  support::ScriptedInbox& encoder() { return models["e"]; }
  Opened ask(const std::string& path, Json body) {
    body["model"] = "e";
    return open("POST", path, body.dump());
  }
  // Each Call that waits gets a vector, the first the first.
  void finish(const std::vector<std::vector<float>>& vectors) {
    for (const std::vector<float>& values : vectors) {
      const std::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size() * 4);
      msg::Outputs out;
      out.tensors.push_back(
          {"sentence_embedding", msg::DType::kFp32, {1, int64_t(values.size())}, base::Bytes::copy_of(bytes)});
      encoder().finish(encoder().held[0], {std::move(out)});
    }
    turn();
  }
};

TEST_F(EmbedRequests, ListsAlone) {
  auto x = ask("/embed", {{"inputs", {"ab", "c"}}});
  finish({{3, 0, 4, 0}, {0, 0, 0, 2}});
  EXPECT_EQ(json(x), Json::parse("[[0.6,0.0,0.8,0.0],[0.0,0.0,0.0,1.0]]")) << "of length 1";
  auto y = ask("/embed", {{"inputs", "ab"}, {"normalize", false}, {"truncate", true}});
  finish({{3, 0, 4, 0}});
  EXPECT_EQ(json(y), Json::parse("[[3.0,0.0,4.0,0.0]]"));
  EXPECT_EQ(error(ask("/embed", {{"inputs", ""}})), "400 invalid_request_error - inputs");
  EXPECT_EQ(error(ask("/embed", {{"inputs", "a"}, {"prompt_name", "query"}})),
            "400 invalid_request_error - prompt_name");
  EXPECT_EQ(error(ask("/embed", {{"inputs", std::string(201, 'a')}})),
            "400 invalid_request_error context_length_exceeded inputs");
}

TEST_F(EmbedRequests, CoheresSecondApiHasAListForEachType) {
  auto x = ask("/v2/embed", {{"texts", {"ab", "c"}},
                             {"input_type", "search_document"},
                             {"embedding_types", {"float", "ubinary", "binary", "base64"}}});
  finish({{1, -1, 0, 2}, {-1, 0, 0, 0.5f}});
  Json said = json(x);
  EXPECT_TRUE(said["id"].is_string());
  said.erase("id");
  EXPECT_EQ(said, Json::parse(R"({"response_type":"embeddings_by_type","embeddings":{
      "float":[[1.0,-1.0,0.0,2.0],[-1.0,0.0,0.0,0.5]],"ubinary":[[144],[16]],"binary":[[16],[-112]],
      "base64":["AACAPwAAgL8AAAAAAAAAQA==","AACAvwAAAAAAAAAAAAAAPw=="]},
      "texts":["ab","c"],"meta":{"api_version":{"version":"2"},"billed_units":{"input_tokens":3}}})"));
  auto y = ask("/v2/embed",
               {{"inputs", Json::parse(R"([{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}])")},
                {"output_dimension", 2}});
  EXPECT_EQ(encoder().seen.back(), "e/1 rows=1 | input_ids INT64 [1,2] [97,98]");
  finish({{3, 4, 0, 0}});
  EXPECT_EQ(json(y)["texts"], Json({"ab"}));
  ASSERT_EQ(json(y)["embeddings"]["float"][0].size(), 2u);
}

TEST_F(EmbedRequests, CoheresFirstApiHasListsUnlessTypesAreNamed) {
  auto x = ask("/v1/embed", {{"texts", {"ab"}}});
  finish({{1, 2, 3, 4}});
  Json said = json(x);
  EXPECT_EQ(said["response_type"], "embeddings_floats");
  EXPECT_EQ(said["embeddings"], Json::parse("[[1.0,2.0,3.0,4.0]]"));
  EXPECT_EQ(said["texts"], Json({"ab"}));
  EXPECT_EQ(said["meta"]["api_version"]["version"], "1");
  auto y = ask("/v1/embed", {{"texts", {"ab"}}, {"embedding_types", {"float"}}});
  finish({{1, 2, 3, 4}});
  EXPECT_EQ(json(y)["embeddings"], Json::parse(R"({"float":[[1.0,2.0,3.0,4.0]]})"));
}

TEST_F(EmbedRequests, CoheresTextsLoseTheirEndUnlessTheyMustNot) {
  auto x = ask("/v2/embed", {{"texts", {std::string(300, 'a')}}});
  EXPECT_NE(encoder().seen.back().find("[1,200]"), std::string::npos) << encoder().seen.back().substr(0, 60);
  ask("/v2/embed", {{"texts", {"abcd"}}, {"max_tokens", 3}});
  EXPECT_EQ(encoder().seen.back(), "e/1 rows=1 | input_ids INT64 [1,3] [97,98,99]");
  ask("/v2/embed", {{"texts", {std::string(300, 'a')}}, {"max_tokens", 1000}});
  EXPECT_NE(encoder().seen.back().find("[1,200]"), std::string::npos) << encoder().seen.back().substr(0, 60);
  for (Json most : {Json(-1), Json(0), Json("3")})
    EXPECT_EQ(error(ask("/v2/embed", {{"texts", {"a"}}, {"max_tokens", most}})),
              "400 invalid_request_error - max_tokens");
  EXPECT_EQ(error(ask("/v2/embed", {{"texts", {std::string(300, 'a')}}, {"truncate", "NONE"}})),
            "400 invalid_request_error context_length_exceeded texts");
  EXPECT_EQ(error(ask("/v2/embed", {{"texts", {"a"}}, {"truncate", "start"}})), "400 invalid_request_error - truncate");
}

TEST_F(EmbedRequests, OrTheirBeginningWhereTheySaySo) {
  ask("/v2/embed", {{"texts", {"abcd"}}, {"max_tokens", 3}, {"truncate", "START"}});
  EXPECT_EQ(encoder().seen.back(), "e/1 rows=1 | input_ids INT64 [1,3] [98,99,100]");
  ask("/v2/embed", {{"texts", {"ab" + std::string(30'000, 'x') + "yz"}}, {"max_tokens", 3}, {"truncate", "START"}});
  EXPECT_EQ(encoder().seen.back(), "e/1 rows=1 | input_ids INT64 [1,3] [120,121,122]");
  ask("/v2/embed", {{"texts", {"ab"}}, {"truncate", "START"}});
  EXPECT_EQ(encoder().seen.back(), "e/1 rows=1 | input_ids INT64 [1,2] [97,98]");
}

TEST_F(EmbedRequests, WhatIsNotOfferedIsRefusedByName) {
  EXPECT_EQ(error(ask("/v2/embed", Json::object())), "400 invalid_request_error - texts");
  EXPECT_EQ(error(ask("/v2/embed", {{"texts", Json::parse("[1,2,3]")}})), "400 invalid_request_error - texts");
  EXPECT_EQ(error(ask("/embed", {{"inputs", "a"}, {"prompt_name", "Right"}})),
            "400 invalid_request_error - prompt_name");
  EXPECT_EQ(error(ask("/v2/embed", {{"images", {"data:image/png;base64,AA=="}}})),
            "400 invalid_request_error - images");
  EXPECT_EQ(error(ask("/v2/embed", {{"texts", {"a"}}, {"embedding_types", {"int8"}}})),
            "400 invalid_request_error - embedding_types");
  EXPECT_EQ(error(ask("/v2/embed", {{"inputs", Json::parse(R"([{"content":[{"type":"image_url"}]}])")}})),
            "400 invalid_request_error - inputs");
  EXPECT_EQ(error(ask("/v2/embed", {{"inputs", Json::parse(R"([{"content":"a"}])")}})),
            "400 invalid_request_error - inputs");
  EXPECT_EQ(error(ask("/v2/embed", {{"texts", {"a"}}, {"output_dimension", 9}})),
            "400 invalid_request_error - output_dimension");
}

}  // namespace
}  // namespace weir::openai
