// Stored responses where there are other nodes.
#include "fake_records.h"
#include "responses_bench.h"

namespace weir::openai {
namespace {

class SharedResponses : public Responses {
 protected:
  SharedResponses() { options.records = &records; }
  // An answer that is stored, and known to the other nodes; its id.
  std::string said(Json body) {
    auto x = ask(std::move(body));
    records.answer();
    scripted().emit("ab");
    scripted().end();
    turn();
    EXPECT_FALSE(x->ended) << "the client waits until other nodes find it";
    records.answer();
    return json(x)["id"];
  }
  Opened answered(Opened x) {
    records.answer();
    turn();
    return x;
  }
  // This node forgets what it has, as one that has never had it.
  void forget() { stored.expire(env.now() + std::chrono::hours(1)); }
  FakeRecords records;
};

TEST_F(SharedResponses, AResponseOfAnotherNodeIsFoundAndGoneOnBehind) {
  const std::string id = said({});
  forget();
  EXPECT_EQ(json(answered(open("GET", "/v1/responses/" + id)))["output"][0]["content"][0]["text"], "ab");
  auto x = answered(ask({{"previous_response_id", id}, {"input", "more"}}));
  EXPECT_EQ(prompt(), "user:hi\nassistant:ab\nuser:more\nassistant:");
  scripted().end();
  turn();
  records.answer();
  EXPECT_EQ(json(x)["previous_response_id"], id);
}

TEST_F(SharedResponses, AStreamOfAnotherNodeIsToldAgainAsItWas) {
  auto x = ask({{"stream", true}});
  auto writes = scripted();
  for (const char* text : {"ab", "c"}) writes.emit(text), turn();
  writes.end();
  turn();
  records.answer();
  const auto told = events(x);
  forget();
  auto again = answered(open("GET", "/v1/responses/" + told[0]["response"]["id"].get<std::string>() + "?stream=true"));
  EXPECT_EQ(events(again), told);
}

TEST_F(SharedResponses, AnItemOfAnotherNodesResponseIsFound) {
  const std::string first = said({}), second = said({{"input", "so"}});
  auto reference = [](const std::string& id) {
    return Json{{"type", "item_reference"}, {"id", responses::item_id("msg_", id, 0)}};
  };
  forget();
  auto x = answered(ask({{"input", Json::array({reference(first),
                                                {{"role", "user"}, {"content", "so"}},
                                                reference(second),
                                                {{"role", "user"}, {"content", "and"}}})}}));
  ASSERT_EQ(inbox().held.size(), 1u) << x->sent;
  EXPECT_EQ(prompt(), "assistant:ab\nuser:so\nassistant:ab\nuser:and\nassistant:");
  auto none = answered(ask({{"input", Json::array({reference("resp_0123456789abcdef01234567")})}}));
  EXPECT_EQ(none->response.status, 404) << none->sent;
}

TEST_F(SharedResponses, AStreamEndsOnceOtherNodesFindTheResponse) {
  auto x = ask({{"stream", true}});
  scripted().emit("ab");
  scripted().end();
  turn();
  EXPECT_EQ(events(x).back()["type"], "response.output_item.done");
  records.answer();
  EXPECT_EQ(events(x).back()["type"], "response.completed");
  EXPECT_TRUE(x->ended);
}

TEST_F(SharedResponses, WhatIsDeletedAtAnotherNodeIsGoneHere) {
  const std::string id = said({});
  for (auto& [key, record] : std::map(records.kept)) records.kept.erase(key), records.erased.insert(key);
  EXPECT_EQ(answered(open("GET", "/v1/responses/" + id))->response.status, 404);
  EXPECT_EQ(stored.size(), 0u);
  EXPECT_EQ(refusal(answered(ask({{"previous_response_id", id}}))),
            "400 previous_response_id: previous_response_id: there is no such response, or no more");
}

TEST_F(SharedResponses, DeletingReachesEveryNodeOrIsRefused) {
  const std::string id = said({});
  forget();
  records.away = true;
  EXPECT_EQ(answered(open("DELETE", "/v1/responses/" + id))->response.status, 503);
  records.away = false;
  EXPECT_EQ(json(answered(open("DELETE", "/v1/responses/" + id)))["deleted"], true);
  EXPECT_TRUE(records.kept.empty());
  EXPECT_EQ(answered(open("DELETE", "/v1/responses/" + id))->response.status, 404);
}

TEST_F(SharedResponses, WithoutNatsANodeGoesOnWithItsOwn) {
  const std::string id = said({});
  records.away = true;
  EXPECT_EQ(answered(open("GET", "/v1/responses/" + id))->response.status, 200);
  EXPECT_EQ(answered(open("GET", "/v1/responses/resp_other"))->response.status, 503);
  EXPECT_EQ(answered(open("DELETE", "/v1/responses/" + id))->response.status, 503);
  EXPECT_EQ(answered(open("GET", "/v1/responses/" + id))->response.status, 200);
}

TEST_F(SharedResponses, AClientThatLeavesWhileNodesAreAskedLeavesNothing) {
  const std::string id = said({});
  {
    auto x = open("GET", "/v1/responses/" + id);
    auto y = open("DELETE", "/v1/responses/" + id);
    auto z = ask({{"previous_response_id", id}});
    auto ends = ask({});
    scripted().end();
    turn();
  }
  records.answer();
  turn();
}

TEST_F(SharedResponses, ARecordThatCannotBeReadIsRefused) {
  const std::string id = said({});
  forget();
  for (auto& [key, record] : records.kept) {
    const auto bytes = base::Bytes::copy_of(record);
    const auto read = responses::read_shared(bytes);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->response.slab(), bytes.slab()) << "it is not copied";
    for (size_t n = 0; n < record.size() - read->response.size() + 1; ++n)
      EXPECT_FALSE(responses::read_shared(bytes.slice(0, n))) << n;
    record = "weir-response 1 18446744073709551615\nxx";
  }
  EXPECT_EQ(answered(open("GET", "/v1/responses/" + id))->response.status, 500);
}

TEST(StoredResponses, WhatGoesForWantOfRoomIsTold) {
  responses::StoredResponses stored(std::chrono::minutes(1), 4000);
  std::string gone;
  stored.when_evicted([&](const std::string& owner, const std::string& id) { gone += owner + '/' + id + ' '; });
  const auto text = base::Bytes::adopt(std::string(100, 'x'));
  for (const char* id : {"a", "b", "c"}) EXPECT_TRUE(stored.put(1, id, {"ann", text, text}, base::Time{}));
  EXPECT_EQ("ann/a ann/b ", gone);
}

}  // namespace
}  // namespace weir::openai
