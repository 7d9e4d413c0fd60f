// Responses over a WebSocket: requests and events.
#include "dialects/openai/responses/socket.h"
#include "socket_bench.h"

namespace weir::openai {
namespace {

using responses::Continuations;
using responses::ResponseSocket;

TEST_F(ResponseSockets, TheEventsAreThoseOfTheStream) {
  auto post = ask({{"stream", true}, {"store", false}});
  scripted().emit("ab");
  scripted().end();
  turn();
  const std::vector<Json> streamed = events(post);
  auto x = connect();
  EXPECT_EQ(101, x->response.status);
  create(x, {{"store", false}, {"stream", true}});
  EXPECT_EQ("user:hi\nassistant:", prompt());
  scripted().emit("ab");
  scripted().end();
  settle();
  const std::vector<Json> sent = told(x);
  ASSERT_EQ(streamed.size(), sent.size());
  for (size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(streamed[i]["type"], sent[i]["type"]);
    EXPECT_EQ(i, sent[i]["sequence_number"]);
  }
  EXPECT_EQ("ab", sent.back()["response"]["output"][0]["content"][0]["text"]);
  EXPECT_FALSE(x->ended);
}

TEST_F(ResponseSockets, AnEventIsOneMessageHoweverLongItIs) {
  const std::string text(60'000, 'a');
  auto x = connect();
  create(x, {{"store", false}});
  scripted().emit(text);
  settle();
  EXPECT_EQ(told(x).size(), text.size() + 4);
  x->reads = false;
  scripted().end();
  std::vector<std::string> messages;
  bool goes_on = false;
  size_t frames = 0;
  for (int i = 0; i < 100 && (messages.empty() || goes_on || messages.size() < 4); ++i) {
    settle();
    for (const ServerFrame& frame : server_frames(std::exchange(x->sent, {}))) {
      ASSERT_EQ(frame.first & 0x0f, goes_on ? 0 : 1) << "a text, or a part that follows one";
      if (!goes_on) messages.emplace_back();
      messages.back() += frame.payload;
      goes_on = !(frame.first & 0x80), ++frames;
    }
    EXPECT_LT(std::exchange(x->fake_backlog, 0), 1u << 20) << "more is written once that is taken";
    x->listener()->on_drain(*x);
  }
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_GT(frames, 4u);
  EXPECT_EQ(Json::parse(messages[0])["text"], text);
  EXPECT_EQ(Json::parse(messages[1])["part"]["text"], text);
  const Json last = Json::parse(messages[3]);
  EXPECT_EQ(last["type"], "response.completed");
  EXPECT_EQ(last["response"]["output"][0], Json::parse(messages[2])["item"]);
  EXPECT_EQ(last["sequence_number"], text.size() + 7);
}

TEST_F(ResponseSockets, OneThatIsNotStoredIsContinuedOnItsConnectionAlone) {
  auto x = connect(), other = connect();
  create(x, {{"store", false}});
  const std::string id = answered(x)["id"];
  EXPECT_EQ(404, open("GET", "/v1/responses/" + id)->response.status);
  EXPECT_EQ("400 invalid_request_error previous_response_not_found previous_response_id",
            error(ask({{"previous_response_id", id}})));
  create(other, {{"previous_response_id", id}});
  EXPECT_EQ("400 previous_response_not_found previous_response_id", failure(other));
  create(x, {{"previous_response_id", id}, {"input", "on"}, {"store", false}});
  EXPECT_EQ("user:hi\nassistant:ab\nuser:on\nassistant:", prompt());
  const Json next = answered(x);
  EXPECT_EQ(id, next["previous_response_id"]);
  create(x, {{"previous_response_id", next["id"]}, {"input", "further"}, {"store", false}});
  EXPECT_EQ("user:hi\nassistant:ab\nuser:on\nassistant:ab\nuser:further\nassistant:", prompt());
  answered(x);
  EXPECT_EQ(3u, stored.size());
  x.reset();
  EXPECT_EQ(0u, stored.size());
}

TEST_F(ResponseSockets, AStoredOneIsFoundByOthers) {
  auto x = connect();
  create(x);
  const std::string id = answered(x)["id"];
  x.reset();
  EXPECT_EQ(200, open("GET", "/v1/responses/" + id)->response.status);
  auto later = connect();
  create(later, {{"previous_response_id", id}, {"input", "on"}});
  EXPECT_EQ("user:hi\nassistant:ab\nuser:on\nassistant:", prompt());
  answered(later);
}

TEST_F(ResponseSockets, WithoutAStoreConnectionsContinueTheirOwn) {
  responses::StoredResponses nothing{base::Duration(0), 1 << 20};
  options.stored = &nothing;
  auto x = connect();
  create(x);
  const Json first = answered(x);
  EXPECT_EQ(false, first["store"]);
  create(x, {{"previous_response_id", first["id"]}, {"input", "on"}});
  EXPECT_EQ("user:hi\nassistant:ab\nuser:on\nassistant:", prompt());
  answered(x);
  x.reset();
  EXPECT_EQ(0u, nothing.size());
  openai.reset();
}

TEST_F(ResponseSockets, TheLastFewAreKept) {
  auto x = connect();
  std::vector<std::string> ids;
  for (size_t i = 0; i <= Continuations::kMost; ++i) {
    create(x, {{"store", false}});
    ids.push_back(answered(x)["id"]);
  }
  EXPECT_EQ(Continuations::kMost, stored.size());
  create(x, {{"previous_response_id", ids.front()}});
  EXPECT_EQ("400 previous_response_not_found previous_response_id", failure(x));
  create(x, {{"previous_response_id", ids[1]}, {"input", "on"}});
  EXPECT_EQ("user:hi\nassistant:ab\nuser:on\nassistant:", prompt());
  answered(x);
}

TEST_F(ResponseSockets, AFailureTakesWhatItWasToGoOnBehindWithIt) {
  auto x = connect();
  for (const bool midway : {true, false}) {
    create(x, {{"store", false}});
    const std::string id = answered(x)["id"];
    create(x, {{"previous_response_id", id}, {"store", false}, {midway ? "user" : "tools", midway ? "u" : "x"}});
    if (midway) {
      scripted().emit("a");
      settle();
      scripted().fail(base::Code::kInternal, "broken");
      settle();
      EXPECT_EQ("response.failed", told(x).back()["type"]);
    } else {
      EXPECT_EQ("400 - tools", failure(x));
    }
    create(x, {{"previous_response_id", id}});
    EXPECT_EQ("400 previous_response_not_found previous_response_id", failure(x)) << midway;
  }
}

TEST_F(ResponseSockets, AFailureOfALongMessageTakesAllThatIsKept) {
  auto x = connect();
  std::vector<std::string> ids;
  for (int i = 0; i < 2; ++i) {
    create(x, {{"store", false}});
    ids.push_back(answered(x)["id"]);
  }
  create(x, {{"previous_response_id", "resp_none"}});
  EXPECT_EQ("400 previous_response_not_found previous_response_id", failure(x));
  EXPECT_EQ(2u, stored.size()) << "a short one is read";
  create(x, {{"previous_response_id", ids[1]}, {"input", std::string(17'000, 'x')}, {"tools", "x"}});
  EXPECT_EQ("400 - tools", failure(x));
  EXPECT_EQ(0u, stored.size());
  for (const std::string& id : ids) {
    create(x, {{"previous_response_id", id}});
    EXPECT_EQ("400 previous_response_not_found previous_response_id", failure(x));
  }
  create(x);
  answered(x);
}

TEST_F(ResponseSockets, RequestsRunOneAfterTheOther) {
  auto x = connect();
  create(x, {{"input", "a"}});
  create(x, {{"input", "b"}});
  EXPECT_EQ("user:a\nassistant:", prompt());
  ASSERT_EQ(1u, inbox().held.size());
  const std::string first = answered(x)["id"];
  ASSERT_EQ(1u, inbox().held.size());
  EXPECT_EQ("user:b\nassistant:", prompt());
  EXPECT_NE(first, answered(x)["id"]);
}

TEST_F(ResponseSockets, AClientThatAsksForMoreThanMayWaitIsHeldBack) {
  auto x = connect();
  const std::string event = client_frame(kText, R"({"type":"response.create","model":"m","input":"hi"})");
  std::string many;
  for (int i = 0; i < 1000; ++i) many += event;
  write(x, many + client_frame(kPing, "p"));
  EXPECT_EQ((1 + ResponseSocket::kMostWaiting) * event.size(), x->consumed);
  EXPECT_EQ(1u, inbox().held.size());
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(0u, count(x, kPong));
    if (answered(x).is_null()) break;
  }
  settle();
  EXPECT_EQ(many.size() + 7, x->consumed);
  EXPECT_FALSE(x->ended);
}

TEST_F(ResponseSockets, WhatIsHeldBackComesInItsOrder) {
  auto x = connect();
  constexpr int kMany = 120;
  std::string all;
  for (int i = 0; i < kMany; ++i)
    all += client_frame(
        kText, R"({"type":"response.create","model":"m","store":false,"input":"n)" + std::to_string(i) + "\"}");
  const size_t size = all.size() / kMany;
  size_t written = 0;
  for (int i = 0; i < kMany; ++i) {
    const std::string piece = all.substr(std::min(written, all.size()), 3 * size / 2);
    written += piece.size();
    if (!piece.empty()) write(x, piece);
    for (int turns = 0; turns < 5 && inbox().held.empty(); ++turns) settle();
    ASSERT_EQ(1u, inbox().held.size()) << i;
    EXPECT_EQ("user:n" + std::to_string(i) + "\nassistant:", prompt());
    answered(x);
  }
  EXPECT_EQ(all.size(), x->consumed);
  EXPECT_TRUE(inbox().held.empty());
}

// Each error has fifty times the bytes of what it answers.
TEST_F(ResponseSockets, AClientThatTakesNothingIsHeldBack) {
  auto x = connect();
  x->reads = false;
  std::string many;
  for (int i = 0; i < 5000; ++i) many += client_frame(kText, "");
  write(x, many);
  for (int i = 0; i < 5000; ++i) settle();
  EXPECT_LT(x->sent.size(), 2 * wire::Exchange::kLowWater);
  EXPECT_LT(x->consumed, many.size());
  write(x, client_frame(kPing, "p"));
  EXPECT_EQ(0u, count(x, kPong));
  x->reads = true, x->fake_backlog = 0, x->sent.clear();
  x->listener()->on_drain(*x);
  for (int i = 0; i < 5000; ++i) settle();
  EXPECT_EQ(many.size() + client_frame(kPing, "p").size(), x->consumed);
  EXPECT_EQ(1u, count(x, kPong));
}

// The response before it has filled the backlog.
TEST_F(ResponseSockets, OneThatWaitsBeginsWhenTheClientHasTakenMore) {
  auto x = connect();
  create(x, {{"input", "a"}});
  create(x, {{"input", "b"}});
  scripted().emit("ab");
  x->fake_backlog = wire::Exchange::kLowWater;
  scripted().end();
  settle();
  EXPECT_TRUE(inbox().held.empty());
  EXPECT_EQ("response.completed", told(x).back()["type"]);
  x->fake_backlog = 0;
  x->listener()->on_drain(*x);
  settle();
  EXPECT_EQ("user:b\nassistant:", prompt());
  answered(x);
}

TEST_F(ResponseSockets, APingIsAnsweredWhileAResponseIsMade) {
  auto x = connect();
  create(x);
  write(x, client_frame(kPing, "p"));
  EXPECT_EQ(1u, count(x, kPong));
  answered(x);
}

TEST_F(ResponseSockets, AWarmUpAnswersNothingAndIsContinued) {
  auto x = connect();
  create(x, {{"generate", false}, {"instructions", "be"}, {"input", "a"}, {"max_output_tokens", 50}});
  EXPECT_EQ("system:be\nuser:a\nassistant:", prompt());
  EXPECT_EQ(1u, call()->generation->max_tokens);
  scripted().emit("z");
  scripted().done();
  settle();
  const std::vector<Json> events = told(x);
  ASSERT_EQ(3u, events.size());
  EXPECT_EQ("response.created", events[0]["type"]);
  EXPECT_EQ("response.completed", events[2]["type"]);
  const Json warm = events[2]["response"];
  EXPECT_EQ(Json::array(), warm["output"]);
  EXPECT_EQ("completed", warm["status"]);
  EXPECT_EQ(50, warm["max_output_tokens"]);
  EXPECT_EQ(0, warm["usage"]["output_tokens"]);
  EXPECT_EQ(0, warm["usage"]["output_tokens_details"]["reasoning_tokens"]);
  EXPECT_LT(0, warm["usage"]["input_tokens"].get<int>());
  EXPECT_EQ(warm["usage"]["input_tokens"], warm["usage"]["total_tokens"]);
  create(x, {{"previous_response_id", warm["id"]}, {"instructions", "be"}, {"input", "b"}});
  EXPECT_EQ("system:be\nuser:a\nuser:b\nassistant:", prompt());
  answered(x);
}

TEST_F(ResponseSockets, AWarmUpNeedsNoInput) {
  auto x = connect();
  send(x, R"({"type":"response.create","model":"m","generate":false,"instructions":"be"})");
  EXPECT_EQ("system:be\nassistant:", prompt());
  const Json warm = answered(x);
  create(x, {{"previous_response_id", warm["id"]}, {"instructions", "be"}});
  EXPECT_EQ("system:be\nuser:hi\nassistant:", prompt());
  answered(x);
}

TEST_F(ResponseSockets, WhatIsNoRequestIsAnErrorAndTheConnectionGoesOn) {
  auto x = connect();
  const std::pair<const char*, const char*> cases[] = {
      {"", "400 - -"},
      {"nonsense", "400 - -"},
      {"[]", "400 - -"},
      {"{}", "400 - type"},
      {R"({"type":"response.cancel"})", "400 - type"},
      {R"({"type":"response.create","model":"none","input":"a"})", "404 model_not_found model"},
      {R"({"type":"response.create","model":"m"})", "400 - input"},
      {R"({"type":"response.create","model":"m","input":"a","background":true})", "400 - background"},
      {R"({"type":"response.create","model":"m","input":"a","stream_id":"b"})", "400 - stream_id"},
      {R"({"type":"response.create","model":"m","input":"a","generate":1})", "400 - generate"},
      {R"({"type":"response.create","model":"m","input":"a","generate":false,"conversation":"conv_1"})",
       "400 - conversation"},
  };
  for (auto [message, expected] : cases) {
    send(x, message);
    EXPECT_EQ(expected, failure(x)) << message;
  }
  create(x);
  answered(x);
  // Only a WebSocket has these.
  EXPECT_EQ("400 type", refusal(ask({{"type", "response.create"}})).substr(0, 8));
  EXPECT_EQ("400 generate", refusal(ask({{"generate", false}})).substr(0, 12));
}

TEST_F(ResponseSockets, WhatBreaksTheProtocolEndsTheConnection) {
  const std::pair<std::string, int> cases[] = {{client_frame(kBinary, "{}"), 1003},
                                               {client_frame(kText, "\"\xff\""), 1007},
                                               {client_frame(kText, "{}", 0), 1002},
                                               {client_frame(kText | 0x40, "{}"), 1002},
                                               {client_frame(0x80, "{}"), 1002},
                                               {client_frame(kText, std::string(5000, 'x')), 1009},
                                               {std::string("\x01\x80\0\0\0\0", 6) + client_frame(kText, "{}"), 1002}};
  options.max_body = 4096;
  for (const auto& [bytes, code] : cases) {
    auto x = connect();
    write(x, bytes);
    EXPECT_EQ(code, close_code(x));
    EXPECT_TRUE(x->ended) << code;
    write(x, client_frame(kText, R"({"type":"response.create","model":"m","input":"hi"})"));
    EXPECT_TRUE(inbox().held.empty());
  }
}

TEST_F(ResponseSockets, AMessageComesInFragments) {
  auto x = connect();
  const std::string event = R"({"type":"response.create","model":"m","input":"hi"})";
  write(x, client_frame(0x01, event.substr(0, 9)));
  write(x, client_frame(kPing, ""));
  for (char c : event.substr(9)) write(x, client_frame(0x00, {&c, 1}));
  write(x, client_frame(0x80, ""));
  EXPECT_EQ("ab", answered(x)["output"][0]["content"][0]["text"]);
}

}  // namespace
}  // namespace weir::openai
