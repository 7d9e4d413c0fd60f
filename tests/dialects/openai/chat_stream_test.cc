// Chat as events: pieces of text, failures in mid-stream, clients that leave or do not read.
#include "bench.h"

namespace weir::openai {
namespace {

using base::Code;
using msg::Finish;
using Chat = OpenaiBench;

TEST_F(Chat, StreamIsRoleThenTextThenFinishThenDone) {
  auto x = chat({{"stream", true}});
  EXPECT_EQ(support::prompt_of(*call()), "user:hi\nassistant:");
  EXPECT_FALSE(x->headed) << "an engine that refuses still has a status of its own";
  auto v = scripted();
  v.emit("Hi");
  turn();
  EXPECT_EQ(x->response.status, 200);
  EXPECT_EQ(x->response.fields.find("content-type"), "text/event-stream; charset=utf-8");
  EXPECT_EQ(x->response.fields.find("cache-control"), "no-cache");
  EXPECT_EQ(x->response.fields.find("x-accel-buffering"), "no");
  EXPECT_TRUE(x->response.fields.has("openai-processing-ms"));
  v.end();
  turn();
  ASSERT_TRUE(x->ended);
  auto all = events(x);
  ASSERT_EQ(all.size(), 5u) << x->sent;
  EXPECT_EQ(all[0]["object"], "chat.completion.chunk");
  EXPECT_EQ(all[0]["model"], "m");
  EXPECT_EQ(all[0]["id"].get<std::string>().substr(0, 9), "chatcmpl-");
  EXPECT_EQ(all[0]["choices"][0]["delta"], Json::parse(R"({"role":"assistant","content":""})"));
  EXPECT_EQ(all[1]["choices"],
            Json::parse(R"([{"index":0,"delta":{"content":"H"},"logprobs":null,"finish_reason":null}])"));
  EXPECT_EQ(all[2]["choices"][0]["delta"]["content"], "i");
  EXPECT_EQ(all[3]["choices"],
            Json::parse(R"([{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop","stop_reason":null}])"));
  EXPECT_EQ(all[4], "[DONE]");
  EXPECT_FALSE(all[1].contains("usage"));
  for (size_t i = 0; i + 1 < all.size(); ++i) EXPECT_EQ(all[i]["id"], all[0]["id"]);
}

TEST_F(Chat, UsageIsOneMoreChunkWithoutChoices) {
  auto x = chat({{"stream", true}, {"stream_options", {{"include_usage", true}}}});
  call()->generation->cached_tokens = 3;
  auto v = scripted();
  v.emit("a");
  v.end();
  turn();
  auto all = events(x);
  ASSERT_EQ(all.size(), 5u);
  EXPECT_TRUE(all[1]["usage"].is_null());
  EXPECT_EQ(all[3]["choices"], Json::array());
  EXPECT_EQ(all[3]["usage"], Json::parse(R"({"prompt_tokens":18,"completion_tokens":2,"total_tokens":20,)"
                                         R"("prompt_tokens_details":{"cached_tokens":3}})"));
}

TEST_F(Chat, ChunksOfTextAloneAreWholeToo) {
  auto x = chat({{"stream", true}, {"model", "m"}, {"stream_options", {{"include_usage", true}}}});
  auto v = scripted();
  v.emit("a\"-\"\\\n\x01z");
  turn();
  auto all = events(x);
  ASSERT_EQ(all.size(), 9u) << x->sent;
  std::string text;
  for (size_t i = 1; i < all.size(); ++i) {
    Json chunk = all[i];
    text += chunk["choices"][0]["delta"]["content"].get<std::string>();
    chunk["choices"][0]["delta"]["content"] = "a";
    EXPECT_EQ(chunk, all[1]) << "but for its text, a chunk is as the first";
  }
  EXPECT_EQ(text, "a\"-\"\\\n\x01z");
  v.done();
}

TEST_F(Chat, ContinuousUsageIsInEveryChunk) {
  auto x = chat({{"stream", true}, {"stream_options", {{"include_usage", true}, {"continuous_usage_stats", true}}}});
  auto v = scripted();
  v.emit("ab");
  v.end();
  turn();
  auto all = events(x);
  EXPECT_EQ(all[0]["usage"]["completion_tokens"], 0) << "the role is no token";
  EXPECT_EQ(all[1]["usage"]["completion_tokens"], 1);
  EXPECT_EQ(all[2]["usage"]["total_tokens"], 20);
}

TEST_F(Chat, WithoutUsageAtTheEndThereIsNoneBefore) {
  auto x = chat({{"stream", true}, {"stream_options", {{"include_usage", false}, {"continuous_usage_stats", true}}}});
  auto v = scripted();
  v.emit("ab");
  v.end();
  turn();
  for (const Json& chunk : events(x)) EXPECT_FALSE(chunk.contains("usage")) << chunk;
}

TEST_F(Chat, CharactersAreNeverSplit) {
  auto x = chat({{"stream", true}});
  auto v = scripted();
  v.emit("\xe2\x82");
  turn();
  EXPECT_TRUE(x->sent.empty());
  v.emit("\xac!");
  v.done();
  turn();
  auto all = events(x);
  EXPECT_EQ(all[1]["choices"][0]["delta"]["content"], "€");
  EXPECT_EQ(all[3]["choices"][0]["finish_reason"], "length");
}

TEST_F(Chat, AStopStringEndsTheSequenceAndIsNotPartOfTheText) {
  auto x = chat({{"stream", true}, {"stop", {"zzz", "lo w"}}, {"stream_options", {{"include_usage", true}}}});
  auto v = scripted();
  v.emit("hello wo");
  turn();
  ASSERT_TRUE(x->ended);
  EXPECT_TRUE(call()->cancelled.load()) << "the engine is told";
  auto all = events(x);
  EXPECT_EQ(text(all), "hel");
  EXPECT_EQ(all[all.size() - 3]["choices"][0]["stop_reason"], "lo w");
  EXPECT_EQ(all[all.size() - 3]["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(all[all.size() - 2]["usage"]["completion_tokens"], 7);
}

TEST_F(Chat, AStopStringIsNoFailure) {
  auto x = chat({{"stop", "lo"}});
  auto v = scripted();
  v.emit("hello");
  turn();
  EXPECT_EQ(x->response.status, 200);
  EXPECT_TRUE(call()->satisfied.load());
  EXPECT_TRUE(call()->cancelled.load());
  EXPECT_EQ(models.catalog->models.at("m").preferred->stats.cancelled.load(), 0u);
}

TEST_F(Chat, AStopStringIsKeptWhenAskedFor) {
  auto x = chat({{"stop", "lo"}, {"include_stop_str_in_output", true}});
  scripted().emit("hello");
  turn();
  EXPECT_EQ(json(x)["choices"][0]["message"]["content"], "hello");
}

TEST_F(Chat, TheEndTokenHasNoTextEvenWithSpecialTokensShown) {
  auto x = chat({{"skip_special_tokens", false}});
  auto v = scripted();
  v.token(257);
  v.end();
  turn();
  EXPECT_EQ(json(x)["choices"][0]["message"]["content"], "<|image|>");
}

TEST_F(Chat, AStopTokenSaysWhichItWas) {
  auto x = chat({{"stop_token_ids", {98}}});
  EXPECT_EQ(call()->generation->stop_ids, std::vector<uint32_t>{98});
  auto v = scripted();
  v.emit("ab");
  v.done(Finish::kStopId, 98);
  turn();
  Json choice = json(x)["choices"][0];
  EXPECT_EQ(choice["message"]["content"], "a");
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_EQ(choice["stop_reason"], 98);
}

TEST_F(Chat, SilenceIsFilledWithComments) {
  auto x = chat({{"stream", true}});
  env.advance(std::chrono::seconds(16));
  EXPECT_EQ(x->response.status, 200);
  EXPECT_EQ(x->sent, ": ping\n\n");
  env.advance(std::chrono::seconds(15));
  EXPECT_EQ(x->sent, ": ping\n\n: ping\n\n");
  scripted().end();
  turn();
  EXPECT_EQ(events(x).back(), "[DONE]");
  EXPECT_EQ(env.armed(), 0u);
}

TEST_F(Chat, AFailureBeforeTheFirstTokenHasItsStatus) {
  auto x = chat({{"stream", true}});
  scripted().fail(Code::kResourceExhausted, "the queue is full");
  turn();
  EXPECT_EQ(error(x), "429 rate_limit_error rate_limit_exceeded -");
  EXPECT_EQ(x->response.fields.find("retry-after"), "1");
  EXPECT_EQ(env.armed(), 0u);
}

TEST_F(Chat, AFailureInMidStreamIsAnEvent) {
  auto x = chat({{"stream", true}});
  auto v = scripted();
  v.emit("a");
  v.fail(Code::kInternal, "it broke");
  turn();
  auto all = events(x);
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[2]["error"]["message"], "it broke");
  EXPECT_EQ(all[2]["error"]["type"], "server_error");
  EXPECT_EQ(all[3], "[DONE]");
  EXPECT_TRUE(x->ended);
  EXPECT_EQ(x->record().code, Code::kInternal);
}

TEST_F(Chat, AClientThatLeavesCancels) {
  auto x = chat({{"stream", true}, {"n", 2}});
  EXPECT_EQ(load.running.load(), 1);
  scripted().emit("a");
  turn();
  x.reset();
  EXPECT_TRUE(call(0)->cancelled.load());
  EXPECT_TRUE(call(1)->cancelled.load());
  EXPECT_EQ(env.armed(), 0u);
}

TEST_F(Chat, ASlowReaderHoldsTheEngineBack) {
  auto x = chat({{"stream", true}});
  int32_t credit = call()->credit.load();
  EXPECT_LT(credit, 10000);
  x->fake_backlog = wire::Exchange::kLowWater;
  auto v = scripted();
  v.emit(std::string(200, 'a'));
  turn();
  EXPECT_EQ(call()->credit.load(), credit) << "nothing was given back";
  x->fake_backlog = 0;
  x->listener()->on_drain(*x);
  EXPECT_EQ(call()->credit.load(), credit + 200);
  v.emit(std::string(64, 'a'));
  turn();
  EXPECT_EQ(call()->credit.load(), credit + 264) << "as long as the reader keeps up";
}

}  // namespace
}  // namespace weir::openai
