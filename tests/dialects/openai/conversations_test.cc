// Conversations: what they hold, whose they are, and the responses that go on behind them.
#include "responses_bench.h"
#include "support/fake_offload.h"

namespace weir::openai {
namespace {

class Conversations : public Responses {
 protected:
  static constexpr const char* kPath = "/v1/conversations";

  std::string made(const Json& body = Json::object()) { return json(open("POST", kPath, body.dump()))["id"]; }
  static std::string at(const std::string& id, const std::string& more = {}) { return kPath + ('/' + id) + more; }
  Json items(const std::string& id, const std::string& query = "?order=asc") {
    return json(open("GET", at(id, "/items" + query)));
  }
  // The role, or the type, of each item and its text.
  std::string told(const std::string& id) {
    std::string out;
    const Json all = items(id);
    for (const Json& item : all["data"]) {
      out += item.value("role", item["type"].get<std::string>()) + ':';
      if (item.contains("content")) out += item["content"][0]["text"].get<std::string>();
      out += ' ';
    }
    return out;
  }
  Opened as(const wire::PeerInfo& peer, const std::string& method, const std::string& path, const Json& body) {
    Opened x(new support::FakeExchange(method, path, body.is_null() ? "" : body.dump()), {&router});
    x->mutable_request().peer = &peer;
    x->time = env.now();
    if (router.begin(*x).body == wire::BodyPlan::kWhole) router.whole(*x);
    bus.turn();
    return x;
  }
  static Json user(const std::string& text) { return {{"role", "user"}, {"content", text}}; }
  // One of kFilled long items.
  std::string filled() {
    options.stored = &large, openai.reset();
    const std::string text((responses::StoredResponses::kMostBytes / 4) - 1000, 'a'), id = made();
    for (size_t i = 0; i < kFilled; ++i)
      EXPECT_EQ(open("POST", at(id, "/items"), Json{{"items", {user(text)}}}.dump())->response.status, 200);
    return id;
  }
  ~Conversations() override { openai.reset(); }
  static constexpr size_t kFilled = 3;
  responses::StoredResponses large{std::chrono::minutes(10), 64 << 20};
};

TEST_F(Conversations, IsMadeShownChangedAndDeleted) {
  auto x = open("POST", kPath, R"({"metadata":{"a":"1"}})");
  const std::string id = json(x)["id"];
  EXPECT_TRUE(id.starts_with("conv_")) << x->sent;
  EXPECT_EQ(json(x)["object"], "conversation");
  EXPECT_TRUE(json(x)["created_at"].is_number_integer());
  EXPECT_EQ(json(open("GET", at(id))), json(x));
  EXPECT_EQ(json(open("POST", at(id), R"({"metadata":{"b":"2"}})"))["metadata"], Json({{"b", "2"}}));
  EXPECT_EQ(json(open("GET", at(id)))["metadata"], Json({{"b", "2"}}));
  EXPECT_EQ(json(open("GET", at(id)))["created_at"], json(x)["created_at"]);
  EXPECT_EQ(json(open("DELETE", at(id))), Json({{"id", id}, {"object", "conversation.deleted"}, {"deleted", true}}));
  EXPECT_EQ(error(open("GET", at(id))), "404 invalid_request_error conversation_not_found conversation_id");
  EXPECT_EQ(open("DELETE", at(id))->response.status, 404);
  EXPECT_EQ(json(open("POST", kPath))["object"], "conversation") << "a body without bytes is an empty one";
}

TEST_F(Conversations, ItemsAreAddedListedAndDeleted) {
  const std::string id = made({{"items", {user("a")}}});
  auto added = json(
      open("POST", at(id, "/items"), Json{{"items", {{{"role", "assistant"}, {"content", "b"}}, user("c")}}}.dump()));
  ASSERT_EQ(added["data"].size(), 2u) << added;
  EXPECT_EQ(added["first_id"], added["data"][0]["id"]);
  EXPECT_EQ(added["data"][0]["content"][0]["type"], "output_text");
  EXPECT_EQ(added["data"][1]["type"], "message");
  EXPECT_EQ(told(id), "user:a assistant:b user:c ");
  const Json page = items(id, "?limit=2");
  EXPECT_EQ(page["data"][0], added["data"][1]) << "the newest first";
  EXPECT_EQ(page["has_more"], true);
  EXPECT_EQ(items(id, "?after=" + page["last_id"].get<std::string>())["data"][0]["content"][0]["text"], "a");
  const std::string b = added["data"][0]["id"];
  EXPECT_EQ(json(open("GET", at(id, "/items/" + b))), added["data"][0]);
  EXPECT_EQ(json(open("DELETE", at(id, "/items/" + b)))["id"], id);
  EXPECT_EQ(told(id), "user:a user:c ");
  EXPECT_EQ(error(open("GET", at(id, "/items/" + b))), "404 invalid_request_error item_not_found item_id");
  EXPECT_EQ(open("DELETE", at(id, "/items/" + b))->response.status, 404);
}

TEST_F(Conversations, WhatIsWrongIsNamed) {
  const std::string id = made();
  EXPECT_EQ(refusal(open("POST", kPath, R"({"items":"a"})")), "400 items: items: expected a list of items");
  EXPECT_EQ(refusal(open("POST", kPath, R"({"items":[{"type":"x"}]})")),
            "400 items: items[0]: items of type 'x' are not offered");
  EXPECT_EQ(refusal(open("POST", at(id, "/items"), Json{{"items", std::vector<Json>(21, user("a"))}}.dump())),
            "400 items: items: at most 20 of them at a time");
  EXPECT_EQ(refusal(open("POST", at(id, "/items"), "{}")), "400 items: items: expected a list of items");
  EXPECT_EQ(refusal(open("POST", at(id), R"({"metadata":{"a":1}})")),
            "400 metadata: metadata: expected an object of texts");
  EXPECT_EQ(refusal(open("POST", at(id), R"({"items":[]})")), "400 items: items: no such parameter");
  EXPECT_EQ(refusal(ask({{"conversation", 1}})),
            "400 conversation: conversation: expected an id, or an object with one");
  EXPECT_EQ(refusal(ask({{"conversation", id}, {"previous_response_id", "resp_1"}})),
            "400 conversation: conversation: not with previous_response_id");
  EXPECT_EQ(error(ask({{"conversation", "conv_1"}})),
            "404 invalid_request_error conversation_not_found conversation_id");
}

TEST_F(Conversations, AResponseGoesOnBehindItAndIsAddedToIt) {
  const std::string id = made({{"items", {user("so")}}});
  auto x = ask({{"conversation", id}, {"instructions", "Be brief."}});
  EXPECT_EQ(prompt(), "system:Be brief.\nuser:so\nuser:hi\nassistant:");
  scripted().emit("ab");
  scripted().end();
  turn();
  EXPECT_EQ(json(x)["conversation"], Json({{"id", id}}));
  EXPECT_EQ(told(id), "user:so user:hi assistant:ab ");
  EXPECT_EQ(items(id)["data"][2]["id"], json(x)["output"][0]["id"]);
  auto stream = ask({{"conversation", {{"id", id}}}, {"stream", true}, {"input", {user("and")}}, {"store", false}});
  EXPECT_EQ(prompt(), "user:so\nuser:hi\nassistant:ab\nuser:and\nassistant:");
  scripted().emit("c");
  scripted().end();
  turn();
  EXPECT_EQ(events(stream).back()["type"], "response.completed");
  EXPECT_EQ(told(id), "user:so user:hi assistant:ab user:and assistant:c ");
}

TEST_F(Conversations, WhatIsNotAnsweredIsNotAdded) {
  const std::string id = made();
  ask({{"conversation", id}}).reset();
  turn();
  models.finish_all();
  turn();
  EXPECT_EQ(told(id), "");
}

TEST_F(Conversations, ResponsesAtTheSameTimeAreBothAdded) {
  const std::string id = made();
  auto x = ask({{"conversation", id}, {"input", "1"}}), y = ask({{"conversation", id}, {"input", "2"}});
  auto first = scripted(0), second = scripted(1);
  second.emit("b");
  second.end();
  turn();
  first.emit("a");
  first.end();
  turn();
  EXPECT_EQ(told(id), "user:2 assistant:b user:1 assistant:a ");
}

TEST_F(Conversations, OneThatIsDeletedMeanwhileFailsTheResponse) {
  const std::string id = made();
  auto x = ask({{"conversation", id}});
  open("DELETE", at(id));
  scripted().emit("ab");
  scripted().end();
  turn();
  EXPECT_EQ(x->response.status, 409) << x->sent;
}

TEST_F(Conversations, AFullOneTakesNoMore) {
  auto more = open("POST", at(filled(), "/items"), Json{{"items", {user(std::string((1 << 20) + 4000, 'a'))}}}.dump());
  EXPECT_EQ(error(more), "400 invalid_request_error conversation_full items");
}

// The whole of what was told is told to its end, each event with the next number: some clients look for gaps.
TEST_F(Conversations, AResponseThatAFullOneDoesNotTakeFailsWithAllThatWasSaid) {
  responses::StoredResponses small{std::chrono::minutes(10), 16 << 10};
  options.stored = &small, openai.reset();
  const std::string id = made({{"items", {user(std::string(2000, 'a')), user(std::string(700, 'a'))}}});
  const Json body = {{"conversation", id}, {"store", false}, {"truncation", "auto"}};
  const std::string says(600, 'b');
  Json streamed = body;
  streamed["stream"] = true;
  auto stream = ask(streamed);
  scripted().emit(says);
  scripted().end();
  turn();
  const std::vector<Json> told = events(stream);
  ASSERT_GE(told.size(), 5u) << stream->sent;
  EXPECT_EQ(told[told.size() - 2]["type"], "response.output_item.done");
  EXPECT_EQ(told[told.size() - 2]["item"]["content"][0]["text"], says);
  EXPECT_EQ(told.back()["type"], "response.failed");
  std::string deltas;
  for (const Json& event : told)
    if (event["type"] == "response.output_text.delta") deltas += event["delta"];
  EXPECT_EQ(deltas, says);
  auto whole = ask(body);
  scripted().emit(says);
  scripted().end();
  turn();
  EXPECT_EQ(error(whole), "400 invalid_request_error conversation_full conversation");
  stream.reset(), whole.reset(), openai.reset();
}

// Not when the answer is made.
TEST_F(Conversations, AResponseForWhichThereIsNoRoomIsNotBegun) {
  responses::StoredResponses small{std::chrono::minutes(10), 16 << 10};
  options.stored = &small, openai.reset();
  const std::string id = made({{"items", {user(std::string(2000, 'a')), user(std::string(1000, 'a'))}}});
  auto x = ask({{"conversation", id}, {"truncation", "auto"}, {"input", std::string(300, 'a')}});
  EXPECT_EQ(error(x), "400 invalid_request_error conversation_full conversation");
  EXPECT_TRUE(inbox().held.empty());
  x.reset(), openai.reset();
}

// A worker looks for the item where the conversation is long, and others may change it meanwhile.
TEST_F(Conversations, AnItemOfALongOneIsDeletedByAWorker) {
  const std::string id = filled();
  const auto add = [&](const std::string& text) {
    return json(open("POST", at(id, "/items"), Json{{"items", {user(text)}}}.dump()))["first_id"].get<std::string>();
  };
  const std::string first = add("first"), second = add("second"), third = add("third");
  support::FakeOffload workers;
  options.offload = &workers, openai.reset();
  auto x = open("DELETE", at(id, "/items/" + second));
  ASSERT_FALSE(x->ended) << "it was done on the shard";
  add("fourth");
  workers.work();
  EXPECT_EQ(workers.sent, 1u) << "what is added behind it changes nothing";
  EXPECT_EQ(json(x)["id"], id);
  auto y = open("DELETE", at(id, "/items/" + third)), z = open("DELETE", at(id, "/items/" + first)),
       again = open("DELETE", at(id, "/items/" + second));
  workers.work();
  EXPECT_EQ(json(y)["id"], id);
  EXPECT_EQ(json(z)["id"], id);
  EXPECT_EQ(error(again), "404 invalid_request_error item_not_found item_id");
  options.offload = nullptr, openai.reset();
  EXPECT_TRUE(told(id).ends_with(" user:fourth ")) << "the others are as they were";
  EXPECT_EQ(items(id)["data"].size(), kFilled + 1);
}

// Each is another one than was looked for, so that the worker looks again.
TEST_F(Conversations, AnItemThatIsElsewhereMeanwhileIsLookedForAgain) {
  const std::string id = filled();
  const Json all = items(id);
  support::FakeOffload workers;
  options.offload = &workers, openai.reset();
  auto x = open("DELETE", at(id, "/items/" + all["data"][0]["id"].get<std::string>())),
       y = open("DELETE", at(id, "/items/" + all["data"][1]["id"].get<std::string>()));
  workers.work();
  EXPECT_EQ(workers.sent, 3u);
  EXPECT_EQ(x->response.status, 200);
  EXPECT_EQ(y->response.status, 200) << y->sent;
  auto late = open("DELETE", at(id, "/items/" + all["data"][2]["id"].get<std::string>()));
  open("DELETE", at(id));
  workers.work();
  EXPECT_EQ(error(late), "404 invalid_request_error conversation_not_found conversation_id");
}

// Nothing is looked up for one: neither the response nor the conversation is read.
TEST_F(Conversations, AReferenceIsRefusedBeforeAnythingIsRead) {
  support::FakeOffload workers;
  options.stored = &large, openai.reset();
  const std::string id = made({{"items", {user(std::string(200'000, 'a'))}}});
  open("POST", at(id, "/items"), Json{{"items", {user(std::string(200'000, 'a'))}}}.dump());
  options.offload = &workers, openai.reset();
  for (const Json& reference :
       {Json{{"type", "item_reference"}, {"id", "msg_0123456789abcdef012345670000"}}, Json{{"id", "msg_1"}}}) {
    auto x = ask({{"conversation", id}, {"input", {user("so"), reference}}});
    EXPECT_EQ(workers.sent, 0u);
    ASSERT_TRUE(x->ended);
    EXPECT_EQ(refusal(x), "400 input: input: an item_reference is not offered with a conversation");
  }
}

TEST_F(Conversations, IsItsTenantsAlone) {
  const wire::PeerInfo owner{"10.0.0.1:5000"}, other{"10.0.0.2:5000"};
  open("GET", "/v1/models");
  const std::string id = json(as(owner, "POST", kPath, {{"items", {user("so")}}}))["id"];
  const std::string item = json(as(owner, "GET", at(id, "/items"), {}))["data"][0]["id"];
  struct Try {
    const char* method;
    std::string path;
    Json body;
  };
  for (const Try& t : {Try{"GET", at(id), {}}, Try{"POST", at(id), {{"metadata", {{"a", "b"}}}}},
                       Try{"GET", at(id, "/items"), {}}, Try{"POST", at(id, "/items"), {{"items", {user("x")}}}},
                       Try{"GET", at(id, "/items/" + item), {}}, Try{"DELETE", at(id, "/items/" + item), {}},
                       Try{"POST", "/v1/responses", {{"model", "m"}, {"input", "x"}, {"conversation", id}}},
                       Try{"DELETE", at(id), {}}})
    EXPECT_EQ(as(other, t.method, t.path, t.body)->response.status, 404) << t.method << t.path;
  EXPECT_EQ(as(owner, "GET", at(id), {})->response.status, 200);
}

TEST_F(Conversations, IsNoResponseAndAResponseIsNone) {
  const std::string id = made(), response = say({});
  EXPECT_EQ(open("GET", "/v1/responses/" + id)->response.status, 404);
  EXPECT_EQ(open("DELETE", "/v1/responses/" + id)->response.status, 404);
  EXPECT_EQ(open("GET", "/v1/responses/" + id + "/input_items")->response.status, 404);
  EXPECT_EQ(ask({{"previous_response_id", id}})->response.status, 400);
  EXPECT_EQ(open("GET", at(response))->response.status, 404);
  EXPECT_EQ(open("DELETE", at(response))->response.status, 404);
  EXPECT_EQ(open("GET", at(id))->response.status, 200);
}

TEST_F(Conversations, IsForgottenItsTimeBehindItsLastChange) {
  const std::string id = made();
  env.advance(std::chrono::minutes(6));
  open("POST", at(id, "/items"), Json{{"items", {user("a")}}}.dump());
  env.advance(std::chrono::minutes(6));
  EXPECT_EQ(told(id), "user:a ");
  env.advance(std::chrono::minutes(11));
  EXPECT_EQ(open("GET", at(id))->response.status, 404);
  EXPECT_EQ(stored.size(), 0u);
}

TEST_F(Conversations, NoneIsKeptWhereNothingIsStored) {
  options.stored = nullptr;
  EXPECT_EQ(open("POST", kPath, "{}")->response.status, 501);
  EXPECT_EQ(open("GET", at("conv_1"))->response.status, 404);
}

TEST(StoredResponses, WhatGrowsStaysAndTheOthersGo) {
  using responses::StoredResponse;
  base::FakeEnv env;
  responses::StoredResponses stored(std::chrono::minutes(1), 16 << 10);
  const auto text = [](size_t size) { return base::Bytes::adopt(std::string(size, 'a')); };
  StoredResponse one;
  one.kind = responses::StoredKind::kConversation;
  one.turns = text(500);
  ASSERT_TRUE(stored.put(1, "grows", one, env.now()) && stored.put(1, "other", one, env.now()));
  StoredResponse next = one;
  next.turns = text(3000);
  using Replaced = responses::StoredResponses::Replaced;
  EXPECT_EQ(stored.replace(1, "grows", one, next, env.now()), Replaced::kDone);
  EXPECT_EQ(stored.size(), 1u);
  EXPECT_EQ(stored.replace(1, "grows", one, next, env.now()), Replaced::kChanged);
  StoredResponse larger = next;
  larger.turns = text(5000);
  EXPECT_EQ(stored.replace(1, "grows", next, larger, env.now()), Replaced::kNoRoom);
  EXPECT_EQ(stored.replace(2, "grows", next, larger, env.now()), Replaced::kGone);
  EXPECT_EQ(stored.find(1, "grows", env.now(), one.kind)->turns.size(), 3000u);
  stored.expire(env.now() + std::chrono::hours(1));
  EXPECT_EQ(stored.size(), 0u);
}

// Metadata and items are two things: whoever changes the one does not have to begin anew for the other.
TEST(StoredResponses, ChangesOfTwoPartsAreBothMade) {
  using responses::StoredResponse;
  using Replaced = responses::StoredResponses::Replaced;
  base::FakeEnv env;
  responses::StoredResponses stored(std::chrono::minutes(1), 16 << 10);
  const auto text = [](const std::string& said) { return base::Bytes::adopt(std::string(said)); };
  StoredResponse seen;
  seen.kind = responses::StoredKind::kConversation;
  seen.turns = text("a"), seen.response = text("{}");
  ASSERT_TRUE(stored.put(1, "id", seen, env.now()));
  StoredResponse items = seen, metadata = seen, late = seen;
  items.turns = text("a,b"), metadata.response = text("{1}"), late.turns = text("c");
  EXPECT_EQ(stored.replace(1, "id", seen, items, env.now()), Replaced::kDone);
  EXPECT_EQ(stored.replace(1, "id", seen, metadata, env.now()), Replaced::kDone);
  EXPECT_EQ(stored.replace(1, "id", seen, late, env.now()), Replaced::kChanged);
  const auto now = stored.find(1, "id", env.now(), seen.kind);
  EXPECT_EQ(now->turns.view(), "a,b");
  EXPECT_EQ(now->response.view(), "{1}");
}

}  // namespace
}  // namespace weir::openai
