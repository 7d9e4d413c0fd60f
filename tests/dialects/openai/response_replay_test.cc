// The events of a response that is stored: GET /v1/responses/{id}?stream=true&starting_after=N.
#include "dialects/openai/responses/replay.h"

#include "marshal/tenant.h"
#include "responses_bench.h"
#include "support/fake_offload.h"

namespace weir::openai {
namespace {

class ResponseReplay : public Responses {
 protected:
  // A response of the model that calls tools, whose stream is told token by token.
  std::vector<Json> live(Json body, const std::string& says = kSays) {
    body["model"] = "qwen", body["stream"] = true;
    auto x = ask(std::move(body));
    ScriptedAnswer writes{models["qwen"], models["qwen"].held[0]};
    writes.emit(says);
    writes.end();
    turn();
    return events(x);
  }
  std::string after(const std::string& id, const std::string& query) {
    auto x = open("GET", "/v1/responses/" + id + "?stream=true" + query);
    EXPECT_TRUE(x->ended);
    return x->sent;
  }
  static std::vector<Json> read(std::string_view sent) {
    std::vector<Json> out;
    for (size_t end; (end = sent.find("\n\n")) != sent.npos; sent.remove_prefix(end + 2))
      out.push_back(Json::parse(sent.substr(sent.find("data: ") + 6, end - sent.find("data: ") - 6)));
    return out;
  }
  static std::string id_of(const std::vector<Json>& events) { return events.at(0)["response"]["id"]; }
};

TEST_F(ResponseReplay, TheEventsAreThoseOfTheStream) {
  const auto told = live({{"tools", tools}});
  ASSERT_GT(told.size(), 20u);
  const auto again = read(after(id_of(told), ""));
  ASSERT_EQ(again.size(), told.size());
  for (size_t i = 0; i < told.size(); ++i) EXPECT_EQ(again[i], told[i]) << i;
}

TEST_F(ResponseReplay, AClientGoesOnBehindTheLastEventThatItHas) {
  const auto told = live({{"tools", tools}});
  for (size_t last = 0; last < told.size(); ++last) {
    const auto rest = read(after(id_of(told), "&starting_after=" + std::to_string(last)));
    EXPECT_EQ(rest, std::vector<Json>(told.begin() + ptrdiff_t(last) + 1, told.end())) << last;
  }
  EXPECT_EQ(after(id_of(told), "&starting_after=100000"), "");
  EXPECT_EQ(error(open("GET", "/v1/responses/" + id_of(told) + "?stream=true&starting_after=-1")),
            "400 invalid_request_error - starting_after");
}

TEST_F(ResponseReplay, ACustomToolsCallHasItsEvents) {
  const Json custom = Json::parse(R"([{"type":"custom","name":"patch"}])");
  const auto told =
      live({{"tools", custom}}, R"(a€b<tool_call>{"name":"patch","arguments":{"input":"x\ny"}}</tool_call>)");
  EXPECT_EQ(read(after(id_of(told), "")), told);
}

TEST_F(ResponseReplay, OfACutCallTheLastEventHasItsNumber) {
  const auto told = live({{"tools", tools}}, R"(So <tool_call>{"name":"f","arguments":{"a)");
  const auto again = read(after(id_of(told), ""));
  EXPECT_EQ(again.back(), told.back());
}

TEST_F(ResponseReplay, WhatWasNoStreamIsToldInOnePiece) {
  const std::string id = say({});
  const auto all = read(after(id, ""));
  std::string types;
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i]["sequence_number"], i);
    types += all[i]["type"].get<std::string>().substr(9) + ' ';
  }
  EXPECT_EQ(types,
            "created in_progress output_item.added content_part.added output_text.delta output_text.done "
            "content_part.done output_item.done completed ");
  EXPECT_EQ(all[4]["delta"], "ab");
  EXPECT_EQ(all.back()["response"], json(open("GET", "/v1/responses/" + id)));
}

TEST_F(ResponseReplay, ManyEventsOfAShortResponseAreMadeByAWorker) {
  support::FakeOffload workers;
  options.offload = &workers;
  const uint64_t tenant = marshal::tenant_of(open("GET", "/v1/models")->request());
  responses::StoredResponse kept;
  kept.about = responses::write_cuts({3008, {std::vector<uint32_t>(3000, 1)}});
  const Json part{{"type", "output_text"}, {"text", std::string(3000, 'a')}};
  const Json message{{"type", "message"}, {"id", "msg_1"}, {"content", {part}}};
  kept.response = base::Bytes::copy_of(Json{{"id", "resp_1"}, {"status", "completed"}, {"output", {message}}}.dump());
  ASSERT_TRUE(stored.put(tenant, "resp_1", kept, env.now()));
  auto x = open("GET", "/v1/responses/resp_1?stream=true&starting_after=3005");
  ASSERT_FALSE(x->ended);
  ASSERT_EQ(workers.waiting(), 1u);
  workers.work();
  EXPECT_EQ(read(x->sent).size(), 2u);
  EXPECT_EQ(read(x->sent).back()["type"], "response.completed");
}

TEST_F(ResponseReplay, OneThatIsNotThereIsAnError) {
  EXPECT_EQ(error(open("GET", "/v1/responses/resp_1?stream=true")),
            "404 invalid_request_error response_not_found response_id");
}

TEST(StreamCuts, AreReadAsTheyWereWritten) {
  responses::StreamCuts cuts;
  cuts.events = 12;
  cuts.items = {{3, 5}, {}, {4294967295}};
  const std::string text = responses::write_cuts(cuts);
  EXPECT_EQ(text, "12;3,5;;4294967295");
  const auto read = responses::read_cuts(text);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->events, 12u);
  EXPECT_EQ(read->items, cuts.items);
  for (const char* wrong : {"", "x", "1,2", "1;2,", "1;2,x", "1;4294967296", "1 "})
    EXPECT_FALSE(responses::read_cuts(wrong)) << wrong;
}

TEST(StreamCuts, ATextIsCutBetweenCharacters) {
  const std::string response =
      R"({"id":"resp_1","status":"completed","output":[{"type":"message","id":"msg_1","content":[{"type":"output_text","text":"€€"}]}]})";
  const std::string events = responses::replayed_events(response, "9;1,1", -1);
  EXPECT_NE(events.find(R"("delta":"€")"), events.npos) << events;
  EXPECT_EQ(responses::replayed_events("[", "", -1), "");
}

}  // namespace
}  // namespace weir::openai
