// Stored chat completions: what is kept, for whom, and how it is found.
#include "marshal/tenant.h"
#include "responses_bench.h"

namespace weir::openai {
namespace {

class Chats : public Responses {
 protected:
  static constexpr const char* kPath = "/v1/chat/completions";
  static std::string at(const std::string& id, const std::string& more = {}) { return kPath + ('/' + id) + more; }
  Opened stored_chat(Json body, const std::string& text = "ab") {
    body["store"] = true;
    auto x = chat(std::move(body));
    scripted().emit(text);
    scripted().end();
    turn();
    return x;
  }
  std::string id_of(Json body, const std::string& text = "ab") {
    return json(stored_chat(std::move(body), text))["id"];
  }
  std::vector<std::string> listed(const std::string& query = {}) {
    std::vector<std::string> out;
    const Json all = json(open("GET", kPath + query));
    for (const Json& one : all["data"]) out.push_back(one["id"]);
    return out;
  }
  Opened as(const wire::PeerInfo& peer, const std::string& method, const std::string& path, const std::string& body) {
    Opened x(new support::FakeExchange(method, path, body), {&router});
    x->mutable_request().peer = &peer;
    x->time = env.now();
    if (router.begin(*x).body == wire::BodyPlan::kWhole) router.whole(*x);
    bus.turn();
    return x;
  }
};

using Ids = std::vector<std::string>;

TEST_F(Chats, AWholeAnswerIsKeptAsItWasTold) {
  auto x = stored_chat({{"metadata", {{"a", "1"}}}});
  Json told = json(x);
  const std::string id = told["id"];
  told["metadata"] = {{"a", "1"}};
  EXPECT_EQ(json(open("GET", at(id))), told);
  const Json messages = json(open("GET", at(id, "/messages")));
  ASSERT_EQ(messages["data"].size(), 1u) << messages;
  EXPECT_EQ(
      messages["data"][0],
      Json({{"id", id + "-0"}, {"role", "user"}, {"content", "hi"}, {"name", nullptr}, {"content_parts", nullptr}}));
}

// Nobody waits until all of it is written for the one who keeps it.
TEST_F(Chats, WhatIsTooLongToBeKeptIsToldAllTheSame) {
  std::vector<msg::TokenLogprob> top;
  for (uint32_t id = 'a'; id < 'a' + 20; ++id) top.push_back({id, -1.25F});
  for (bool stream : {false, true}) {
    auto x = chat({{"store", true},
                   {"n", 100},
                   {"logprobs", true},
                   {"top_logprobs", 20},
                   {"max_tokens", 50},
                   {"stream", stream}});
    x->reads = stream;
    for (size_t i = 0; i < 100; ++i)
      for (int token = 0; token < 50; ++token) scripted(i).token('c', likely(-1, top));
    while (!inbox().held.empty()) scripted().done();
    turn();
    EXPECT_EQ(x->ended, stream);
    while (!x->ended) x->fake_backlog = 0, x->listener()->on_drain(*x);
    EXPECT_GT(x->sent.size(), size_t(4) << 20);
    if (!stream) {
      EXPECT_EQ(json(x)["choices"].size(), 100u);
    }
  }
  EXPECT_EQ(listed(), Ids());
}

TEST_F(Chats, AStreamIsKeptAsOneAnswer) {
  auto x = chat({{"store", true}, {"stream", true}, {"n", 2}, {"logprobs", true}});
  auto first = scripted(0), second = scripted(1);
  first.token('A', likely(-1));
  second.emit("no");
  first.token('B', likely(-2));
  first.end();
  second.done();
  turn();
  const auto all = OpenaiBench::events(x);
  const Json kept = json(open("GET", at(all[0]["id"])));
  EXPECT_EQ(kept["object"], "chat.completion");
  EXPECT_EQ(kept["created"], all[0]["created"]);
  EXPECT_EQ(kept["choices"][0]["message"]["content"], "AB");
  EXPECT_EQ(kept["choices"][0]["logprobs"]["content"].size(), 2u);
  EXPECT_EQ(kept["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(kept["choices"][1]["message"]["content"], "no");
  EXPECT_EQ(kept["choices"][1]["finish_reason"], "length");
  EXPECT_EQ(kept["usage"]["total_tokens"], 18 + 3 + 2);
  EXPECT_EQ(kept["metadata"], Json::object());
}

TEST_F(Chats, CallsOfAStreamAreKeptWhole) {
  auto x = chat({{"model", "qwen"},
                 {"store", true},
                 {"stream", true},
                 {"tools", Json::parse(R"([{"type":"function","function":{"name":"f"}}])")}});
  ScriptedAnswer writes{models["qwen"], models["qwen"].held[0]};
  writes.emit(kSays);
  writes.end();
  turn();
  const auto all = OpenaiBench::events(x);
  const Json kept = json(open("GET", at(all[0]["id"])))["choices"][0];
  EXPECT_EQ(kept["message"]["reasoning"], "hm");
  ASSERT_EQ(kept["message"]["tool_calls"].size(), 1u) << kept;
  EXPECT_EQ(kept["message"]["tool_calls"][0]["function"], Json({{"name", "f"}, {"arguments", R"({"a":1})"}}));
  EXPECT_EQ(kept["finish_reason"], "tool_calls");
}

TEST_F(Chats, OnlyThoseThatWantItAreKept) {
  auto x = chat({{"metadata", {{"a", "1"}}}});
  scripted().end();
  turn();
  EXPECT_EQ(stored.size(), 0u);
  EXPECT_EQ(error(open("GET", at(json(x)["id"]))), "404 invalid_request_error completion_not_found completion_id");
  EXPECT_EQ(error(chat({{"store", 1}})), "400 invalid_request_error - store");
  EXPECT_EQ(error(chat({{"store", true}, {"metadata", {{"a", std::string(2049, 'a')}}}})),
            "400 invalid_request_error - metadata");
  EXPECT_EQ(error(chat({{"metadata", {{"a", 1}}}})), "400 invalid_request_error - metadata");
}

TEST_F(Chats, AreListedByModelAndMetadata) {
  const std::string a = id_of({{"metadata", {{"k", "1"}, {"o", "x\"y"}}}}), b = id_of({{"metadata", {{"k", "2"}}}}),
                    c = id_of({});
  EXPECT_EQ(listed(), Ids({a, b, c}));
  EXPECT_EQ(listed("?order=desc"), Ids({c, b, a}));
  EXPECT_EQ(listed("?limit=1&after=" + a), Ids({b}));
  EXPECT_EQ(listed("?metadata[k]=2"), Ids({b}));
  EXPECT_EQ(listed("?metadata%5Bk%5D=1&metadata[o]=x%22y"), Ids({a}));
  EXPECT_EQ(listed("?metadata[k]=1&metadata[o]=no"), Ids());
  EXPECT_EQ(listed("?model=m"), Ids({a, b, c}));
  EXPECT_EQ(listed("?model=k"), Ids());
  EXPECT_EQ(error(open("GET", std::string(kPath) + "?after=x")), "400 invalid_request_error - after");
  say({});
  EXPECT_EQ(listed(), Ids({a, b, c})) << "a response is none";
  EXPECT_EQ(open("GET", "/v1/responses/" + a)->response.status, 404);
}

TEST_F(Chats, OnesMetadataChangeAndItsPlaceStays) {
  const std::string a = id_of({{"metadata", {{"k", "1"}}}}), b = id_of({});
  auto changed = open("POST", at(a), R"({"metadata":{"k":"3","metadata":"x"}})");
  EXPECT_EQ(json(changed)["metadata"], Json({{"k", "3"}, {"metadata", "x"}}));
  EXPECT_EQ(json(open("POST", at(a), R"({"metadata":{"k":"4"}})"))["metadata"], Json({{"k", "4"}}));
  EXPECT_EQ(listed("?metadata[k]=1"), Ids());
  EXPECT_EQ(listed("?metadata[k]=4"), Ids({a}));
  EXPECT_EQ(listed(), Ids({a, b}));
  EXPECT_EQ(refusal(open("POST", at(a), R"({"a":1})")), "400 a: a: no such parameter");
  EXPECT_EQ(json(open("DELETE", at(a))), Json({{"object", "chat.completion.deleted"}, {"id", a}, {"deleted", true}}));
  EXPECT_EQ(listed(), Ids({b}));
  for (const char* method : {"GET", "DELETE"}) EXPECT_EQ(open(method, at(a))->response.status, 404);
  EXPECT_EQ(open("POST", at(a), R"({"metadata":{}})")->response.status, 404);
}

TEST_F(Chats, AreTheirTenantsAlone) {
  const std::string id = id_of({});
  const wire::PeerInfo other{"10.0.0.2:5000"};
  EXPECT_EQ(as(other, "GET", at(id), "")->response.status, 404);
  EXPECT_EQ(as(other, "GET", at(id, "/messages"), "")->response.status, 404);
  EXPECT_EQ(as(other, "POST", at(id), R"({"metadata":{}})")->response.status, 404);
  EXPECT_EQ(as(other, "DELETE", at(id), "")->response.status, 404);
  EXPECT_EQ(json(as(other, "GET", kPath, ""))["data"], Json::array());
  EXPECT_EQ(listed(), Ids({id}));
}

TEST_F(Chats, AClientThatCannotBeToldFromOthersHasNoList) {
  const wire::PeerInfo crowd{"unix"};
  open("GET", "/v1/models");
  auto x = as(crowd, "POST", kPath, R"({"model":"m","store":true,"messages":[{"role":"user","content":"hi"}]})");
  scripted().end();
  turn();
  EXPECT_EQ(as(crowd, "GET", at(json(x)["id"]), "")->response.status, 200) << "the id is a secret";
  EXPECT_EQ(json(as(crowd, "GET", kPath, ""))["data"], Json::array());
  auto chosen = as(crowd, "POST", kPath,
                   R"({"model":"m","store":true,"request_id":"1","messages":[{"role":"user","content":"hi"}]})");
  scripted().end();
  turn();
  EXPECT_EQ(json(chosen)["id"], "chatcmpl-1");
  EXPECT_EQ(as(crowd, "GET", at("chatcmpl-1"), "")->response.status, 404) << "anybody could guess it";
}

TEST_F(Chats, AnIdThatIsThereAlreadyIsNotTakenAway) {
  const std::string id = id_of({{"request_id", "mine"}}, "first");
  EXPECT_EQ(id_of({{"request_id", "mine"}}, "second"), id);
  EXPECT_EQ(json(open("GET", at(id)))["choices"][0]["message"]["content"], "first");
  EXPECT_EQ(stored.size(), 1u);
}

TEST_F(Chats, APageIsNoLongerThanTheLongestAnswer) {
  responses::StoredResponses large{std::chrono::minutes(10), 64 << 20};
  options.stored = &large;
  for (const char* id : {"a", "b", "c"}) {
    responses::StoredResponse one;
    one.kind = responses::StoredKind::kChat;
    one.response = base::Bytes::adopt('"' + std::string((3 << 20) / 2, 'x') + '"');
    auto x = open("GET", "/v1/models");
    ASSERT_TRUE(large.put(marshal::tenant_of(x->request()), id, one, env.now()));
  }
  const Json page = json(open("GET", kPath));
  EXPECT_EQ(page["data"].size(), 2u);
  EXPECT_EQ(page["has_more"], true);
  EXPECT_EQ(page["last_id"], "b");
  EXPECT_EQ(json(open("GET", std::string(kPath) + "?after=b"))["has_more"], false);
  openai.reset();
}

TEST_F(Chats, WhereNothingIsStoredTheAnswerIsTheSame) {
  options.stored = nullptr;
  EXPECT_EQ(json(stored_chat({}))["choices"][0]["message"]["content"], "ab");
  EXPECT_EQ(json(open("GET", kPath))["data"], Json::array());
}

}  // namespace
}  // namespace weir::openai
