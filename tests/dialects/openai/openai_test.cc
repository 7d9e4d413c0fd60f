// Everything but chat, completions and embeddings: lists, tokens, small pages, keys, a bus that is full.
#include "auth/authenticator.h"
#include "bench.h"

namespace weir::openai {
namespace {

using Openais = OpenaiBench;

TEST_F(Openais, ModelsOfTextAreListed) {
  for (const char* prefix : {"/v1", "/openai/v1", "/v3"}) {
    auto x = open("GET", std::string(prefix) + "/models");
    Json list = json(x);
    EXPECT_EQ(list["object"], "list");
    ASSERT_EQ(list["data"].size(), 1u);
    EXPECT_EQ(list["data"][0]["id"], "m");
    EXPECT_EQ(list["data"][0]["max_model_len"], 200);
    EXPECT_EQ(list["data"][0]["readouts"]["concepts"], Json({"joy", "fear"}));
  }
  EXPECT_EQ(json(open("GET", "/v1/models/m"))["object"], "model");
  EXPECT_EQ(error(open("GET", "/v1/models/nope")), "404 invalid_request_error model_not_found model");
}

TEST_F(Openais, TokenizeAndBack) {
  auto x = open("POST", "/tokenize", R"({"prompt":"hé","return_token_strs":true})");
  EXPECT_EQ(json(x),
            Json::parse(R"({"count":3,"max_model_len":200,"tokens":[104,195,169],"token_strs":["h","Ã","©"]})"));
  auto y = open("POST", "/tokenize", R"({"model":"m","messages":[{"role":"user","content":"x"}]})");
  EXPECT_EQ(json(y)["count"], 17);
  auto z = open("POST", "/detokenize", R"({"tokens":[104,195,169,256]})");
  EXPECT_EQ(json(z)["prompt"], "hé<|end|>");
  EXPECT_EQ(error(open("POST", "/detokenize", R"({"tokens":[260]})")), "400 invalid_request_error - tokens");
}

TEST_F(Openais, AModelIsCalledByOllamasNameToo) {
  EXPECT_EQ(json(open("GET", "/v1/models/m:latest"))["id"], "m");
  auto x = open("POST", "/v1/chat/completions", R"({"model":"m:latest","messages":[{"role":"user","content":"x"}]})");
  ASSERT_EQ(inbox().held.size(), 1u) << x->sent;
  scripted().end();
  turn();
  EXPECT_EQ(json(x)["model"], "m");
  EXPECT_EQ(open("POST", "/v1/completions", R"({"model":"q:latest","prompt":"x"})")->response.status, 404);
  EXPECT_EQ(open("POST", "/v1/completions", R"({"model":":latest","prompt":"x"})")->response.status, 404);
  EXPECT_EQ(open("POST", "/v1/completions", R"({"model":"m:8b","prompt":"x"})")->response.status, 404);
}

TEST_F(Openais, AFurtherNameIsWhatTheAnswerSays) {
  models.catalog->names = {{"Qwen/Qwen3-8B", "m"}, {"tensors/t", "t"}};
  Json list = json(open("GET", "/v1/models"));
  ASSERT_EQ(list["data"].size(), 2u);
  EXPECT_EQ(list["data"][1]["id"], "Qwen/Qwen3-8B");
  EXPECT_EQ(list["data"][1]["root"], "m");
  EXPECT_EQ(list["models"], Json({"m", "t", "Qwen/Qwen3-8B", "tensors/t"}));
  for (const char* path : {"/v1/models/Qwen%2FQwen3-8B", "/v1/models/Qwen/Qwen3-8B"}) {
    EXPECT_EQ(json(open("GET", path))["id"], "Qwen/Qwen3-8B") << path;
    EXPECT_EQ(json(open("GET", path))["root"], "m") << path;
  }
  EXPECT_EQ(open("GET", "/v1/models/Qwen/Qwen3-4B")->response.status, 404);
  auto x = chat({{"model", "Qwen/Qwen3-8B"}});
  ASSERT_EQ(inbox().held.size(), 1u) << x->sent;
  EXPECT_EQ(call()->model, "m");
  EXPECT_EQ(x->record().model, "m");
  scripted().end();
  turn();
  EXPECT_EQ(json(x)["model"], "Qwen/Qwen3-8B");
  Json tags = json(open("GET", "/api/tags"))["models"];
  ASSERT_EQ(tags.size(), 2u);
  EXPECT_EQ(tags[1]["name"], "Qwen/Qwen3-8B:latest");
}

// As clients of Text Generation Inference and of SGLang call the one model that these servers have.
TEST_F(Openais, APlaceholderIsTheModelThatRequestsWithoutANameMean) {
  for (const char* name : {"tgi", "default", "http://127.0.0.1:8080", "https://weir.example/"}) {
    auto x = open("POST", "/v1/completions", Json{{"model", name}, {"prompt", "x"}}.dump());
    ASSERT_EQ(inbox().held.size(), 1u) << x->sent;
    scripted().end();
    turn();
    EXPECT_EQ(json(x)["model"], name);
  }
  models.add(support::tools_spec("second", ""));
  bus.publish(models.catalog);
  EXPECT_EQ(error(open("POST", "/v1/completions", R"({"model":"tgi","prompt":"x"})")),
            "404 invalid_request_error model_not_found model")
      << "which of the two?";
}

TEST_F(Openais, SmallPages) {
  bool ready = true;
  options.ready = [&] { return ready; };
  EXPECT_EQ(open("GET", "/health")->response.status, 200);
  EXPECT_EQ(open("GET", "/ping")->response.status, 200);
  EXPECT_EQ(open("GET", "/version")->sent, R"({"version":"1.2.3"})");
  EXPECT_EQ(open("GET", "/load")->sent, R"({"server_load":0})");
  ready = false;
  EXPECT_EQ(open("GET", "/health")->response.status, 503);
}

TEST_F(Openais, KeysAreAskedForAndKeepPrefixesApart) {
  auth::Keys keys;
  std::vector<auth::Key> listed;
  for (const char* secret : {"sk-one", "sk-two"}) {
    auth::Key key;
    key.grant.name = key.grant.protocol = "openai";
    key.grant.tenant = secret;
    key.grant.roles = {wire::Role::kInfer};
    key.digest = auth::digest_of(secret);
    listed.push_back(key);
  }
  keys.use(listed);
  auth::Authenticator authenticator(env, {&keys, nullptr, nullptr}, {wire::Role::kHealth});
  router.authenticate(authenticator);
  EXPECT_EQ(error(open("GET", "/v1/models")), "401 invalid_request_error invalid_api_key -");
  for (const char* bad :
       {"Bearer", "Bearer ", "Bearer sk-on", "Bearer sk-onee", "Bearer sk-twp", "sk-one", "Basic sk-one"})
    EXPECT_EQ(open("GET", "/v1/models", "", {{"authorization", bad}})->response.status, 401) << bad;
  EXPECT_EQ(open("POST", "/tokenize", "{}")->response.status, 401);
  EXPECT_EQ(open("GET", "/health")->response.status, 200);
  std::vector<uint64_t> scopes;
  for (const char* good : {"Bearer sk-one", "bearer sk-two"}) {
    auto x = open("POST", "/v1/completions", R"({"prompt":"a"})", {{"authorization", good}});
    ASSERT_EQ(inbox().held.size(), 1u) << x->sent;
    scopes.push_back(call()->cache_scope);
    scripted().done();
    turn();
  }
  EXPECT_NE(scopes[0], scopes[1]);
}

TEST_F(Openais, AnUnknownPathUnderAPrefixIsRefusedInTheSameForm) {
  EXPECT_EQ(open("GET", "/v1/nope")->response.status, 404);
  EXPECT_EQ(json(open("GET", "/v1/nope"))["error"]["type"], "invalid_request_error");
  EXPECT_EQ(open("GET", "/v1/completions")->response.status, 405);
}

// As a codec refuses it, before the dialect sees it.
TEST_F(Openais, ABodyThatIsTooLargeIsRefusedInTheFormOfItsApi) {
  options.max_body = 2000;
  open("GET", "/v1/models");
  auto refused = [&](const char* path) {
    Opened x(new support::FakeExchange("POST", path), {&router});
    const wire::Plan plan = router.begin(*x);
    router.refuse(*x, 413, plan.too_large());
    EXPECT_EQ(x->response.status, 413) << path;
    return json(x);
  };
  const std::string text = "the request body is larger than the limit of 2000 bytes (openai.max_body)";
  for (const char* path : {"/v1/chat/completions", "/openai/v1/responses", "/rerank"}) {
    const Json error = refused(path)["error"];
    EXPECT_EQ(error["message"], text) << path;
    EXPECT_EQ(error["type"], "invalid_request_error") << path;
  }
  EXPECT_EQ(refused("/v1/messages")["error"], Json({{"type", "request_too_large"}, {"message", text}}));
  EXPECT_EQ(refused("/api/chat"), Json({{"error", text}}));
}

TEST_F(Openais, ABusThatIsFullSays429AndTakesBackWhatItHad) {
  bus::Bus small(
      env, base::ShardId{0}, [] {}, bus::BusLimits{1});
  small.publish(models.catalog);
  wire::Router other(env);
  Openai crowded(small, other, load, options);
  support::FakeExchange x("POST", "/v1/completions", R"({"model":"m","prompt":"a","n":2})");
  other.begin(x);
  other.whole(x);
  EXPECT_EQ(x.response.status, 429) << x.sent;
  EXPECT_TRUE(call()->cancelled.load());
  x.close(true);
  other.closed(x);
  models.finish_all();
  small.turn();
}

}  // namespace
}  // namespace weir::openai
