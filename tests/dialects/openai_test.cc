#include "openai_bench.h"

#include "base/encoding.h"
#include "support/held_workers.h"

namespace weir::openai {
namespace {

using base::Code;
using msg::Finish;
using Chat = OpenaiBench;
using Completions = OpenaiBench;
using Openais = OpenaiBench;

// ---- Chat, streamed

TEST_F(Chat, StreamIsRoleThenTextThenFinishThenDone) {
  auto x = chat({{"stream", true}});
  EXPECT_EQ(support::prompt_of(*call()), "user:hi\nassistant:");
  EXPECT_FALSE(x->headed) << "an engine that refuses still has a status of its own";
  auto v = voice();
  v.say("Hi");
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
  auto v = voice();
  v.say("a");
  v.end();
  turn();
  auto all = events(x);
  ASSERT_EQ(all.size(), 5u);
  EXPECT_TRUE(all[1]["usage"].is_null());
  EXPECT_EQ(all[3]["choices"], Json::array());
  EXPECT_EQ(all[3]["usage"], Json::parse(R"({"prompt_tokens":18,"completion_tokens":2,"total_tokens":20,)"
                                         R"("prompt_tokens_details":{"cached_tokens":3}})"));
}

TEST_F(Chat, ContinuousUsageIsInEveryChunk) {
  auto x = chat({{"stream", true}, {"stream_options", {{"include_usage", true}, {"continuous_usage_stats", true}}}});
  auto v = voice();
  v.say("ab");
  v.end();
  turn();
  auto all = events(x);
  EXPECT_EQ(all[1]["usage"]["completion_tokens"], 1);
  EXPECT_EQ(all[2]["usage"]["total_tokens"], 20);
}

TEST_F(Chat, CharactersAreNeverSplit) {
  auto x = chat({{"stream", true}});
  auto v = voice();
  v.say("\xe2\x82");
  turn();
  EXPECT_TRUE(x->sent.empty());
  v.say("\xac!");
  v.done();
  turn();
  auto all = events(x);
  EXPECT_EQ(all[1]["choices"][0]["delta"]["content"], "€");
  EXPECT_EQ(all[3]["choices"][0]["finish_reason"], "length");
}

TEST_F(Chat, AStopStringEndsTheSequenceAndIsNotPartOfTheText) {
  auto x = chat({{"stream", true}, {"stop", {"zzz", "lo w"}}, {"stream_options", {{"include_usage", true}}}});
  auto v = voice();
  v.say("hello wo");
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
  auto v = voice();
  v.say("hello");
  turn();
  EXPECT_EQ(x->response.status, 200);
  EXPECT_TRUE(call()->satisfied.load());
  EXPECT_TRUE(call()->cancelled.load());
  EXPECT_EQ(models.catalog->models.at("m").preferred->stats.cancelled.load(), 0u);
}

TEST_F(Chat, AStopStringIsKeptWhenAskedFor) {
  auto x = chat({{"stop", "lo"}, {"include_stop_str_in_output", true}});
  voice().say("hello");
  turn();
  EXPECT_EQ(json(x)["choices"][0]["message"]["content"], "hello");
}

TEST_F(Chat, TheEndTokenHasNoTextEvenWithSpecialTokensShown) {
  auto x = chat({{"skip_special_tokens", false}});
  auto v = voice();
  v.token(257);
  v.end();
  turn();
  EXPECT_EQ(json(x)["choices"][0]["message"]["content"], "<|image|>");
}

TEST_F(Chat, AStopTokenSaysWhichItWas) {
  auto x = chat({{"stop_token_ids", {98}}});
  EXPECT_EQ(call()->generation->stop_ids, std::vector<uint32_t>{98});
  auto v = voice();
  v.say("ab");
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
  voice().end();
  turn();
  EXPECT_EQ(events(x).back(), "[DONE]");
  EXPECT_EQ(env.armed(), 0u);
}

TEST_F(Chat, AFailureBeforeTheFirstTokenHasItsStatus) {
  auto x = chat({{"stream", true}});
  voice().fail(Code::kResourceExhausted, "the queue is full");
  turn();
  EXPECT_EQ(refusal(x), "429 rate_limit_error rate_limit_exceeded -");
  EXPECT_EQ(x->response.fields.find("retry-after"), "1");
  EXPECT_EQ(env.armed(), 0u);
}

TEST_F(Chat, AFailureInMidStreamIsAnEvent) {
  auto x = chat({{"stream", true}});
  auto v = voice();
  v.say("a");
  v.fail(Code::kInternal, "it broke");
  turn();
  auto all = events(x);
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[2]["error"]["message"], "it broke");
  EXPECT_EQ(all[2]["error"]["type"], "server_error");
  EXPECT_EQ(all[3], "[DONE]");
  EXPECT_TRUE(x->ended);
  EXPECT_EQ(x->ledger().code, Code::kInternal);
}

TEST_F(Chat, AClientThatLeavesCancels) {
  auto x = chat({{"stream", true}, {"n", 2}});
  EXPECT_EQ(load.running.load(), 1);
  voice().say("a");
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
  auto v = voice();
  v.say(std::string(200, 'a'));
  turn();
  EXPECT_EQ(call()->credit.load(), credit) << "nothing was given back";
  x->fake_backlog = 0;
  x->reader()->on_drain(*x);
  EXPECT_EQ(call()->credit.load(), credit + 200);
  v.say(std::string(64, 'a'));
  turn();
  EXPECT_EQ(call()->credit.load(), credit + 264) << "as long as the reader keeps up";
}

// ---- Chat, whole

TEST_F(Chat, WholeAnswerHasChoicesAndUsage) {
  auto x = chat({{"max_completion_tokens", 5}, {"seed", 7}, {"n", 2}, {"temperature", 0.5}});
  EXPECT_EQ(call(0)->generation->max_tokens, 5u);
  EXPECT_EQ(call(0)->generation->sampling.temperature, 0.5F);
  EXPECT_EQ(call(0)->generation->sampling.seed, 7u);
  EXPECT_EQ(call(1)->generation->sampling.seed, 8u);
  voice(1).say("two");
  voice(0).say("one");
  auto first = voice(0), second = voice(1);
  second.done();
  turn();
  EXPECT_FALSE(x->ended);
  first.end();
  turn();
  ASSERT_TRUE(x->ended);
  Json answer = json(x);
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_EQ(answer["choices"][0]["message"]["content"], "one");
  EXPECT_EQ(answer["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(answer["choices"][1]["message"]["content"], "two");
  EXPECT_EQ(answer["choices"][1]["finish_reason"], "length");
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 18);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 7);
  EXPECT_EQ(x->response.fields.find("content-type"), "application/json");
}

TEST_F(Chat, WithoutMaxTokensTheContextIsTheLimit) {
  auto x = chat({});
  EXPECT_EQ(call()->generation->max_tokens, 200u - 18);
}

TEST_F(Chat, LogprobsHaveTextBytesAndAlternatives) {
  auto x = chat({{"logprobs", true}, {"top_logprobs", 2}});
  const auto& g = *call()->generation;
  EXPECT_EQ(g.top_logprobs, 2u);
  ASSERT_EQ(g.logprobs.size(), 1u);
  EXPECT_EQ(g.logprobs[0].start, 18u);
  auto v = voice();
  v.token('A', likely(-0.5F, {{'A', -0.5F}, {0xe2, -1.5F}}));
  v.done();
  turn();
  EXPECT_EQ(json(x)["choices"][0]["logprobs"]["content"],
            Json::parse(R"([{"token":"A","logprob":-0.5,"bytes":[65],"top_logprobs":[)"
                        R"({"token":"A","logprob":-0.5,"bytes":[65]},{"token":"�","logprob":-1.5,"bytes":[226]}]}])"));
}

TEST_F(Chat, LogprobsRideInTheChunkOfTheirToken) {
  auto x = chat({{"logprobs", true}, {"stream", true}});
  auto v = voice();
  v.token(0xe2, likely(-1));
  v.token(0x82, likely(-2));
  v.token(0xac, likely(-std::numeric_limits<float>::infinity()));
  v.done();
  turn();
  auto all = events(x);
  ASSERT_EQ(all.size(), 6u) << x->sent;
  EXPECT_EQ(all[1]["choices"][0]["delta"]["content"], "");
  EXPECT_EQ(all[1]["choices"][0]["logprobs"]["content"][0]["bytes"], Json({226}));
  EXPECT_EQ(all[3]["choices"][0]["delta"]["content"], "€");
  EXPECT_EQ(all[3]["choices"][0]["logprobs"]["content"][0]["logprob"], -9999.0);
}

TEST_F(Chat, ReadoutsRideInTheChunk) {
  auto x = chat({{"stream", true}, {"readouts", true}});
  ASSERT_EQ(call()->generation->readouts.size(), 1u);
  EXPECT_EQ(call()->generation->readouts[0].start, 18u);
  auto details = std::make_shared<msg::TokenDetails>();
  details->readout = {1, 2, 3, 4};
  auto v = voice();
  v.token('A', details);
  v.done();
  turn();
  EXPECT_EQ(events(x)[1]["choices"][0]["readouts"],
            Json::parse(R"([{"position":18,"token_id":65,"values":[[1.0,2.0],[3.0,4.0]]}])"));
}

TEST_F(Chat, ReadoutsOfPromptPositionsComeWithTheFirstChunk) {
  auto x = chat({{"readouts", Json::parse("[[0,2]]")}});
  auto v = voice();
  msg::TokenDetails details;
  details.readout = {1, 2, 3, 4};
  v.prompt(0, details);
  v.prompt(1, details);
  v.say("a");
  v.done();
  turn();
  Json readouts = json(x)["choices"][0]["readouts"];
  ASSERT_EQ(readouts.size(), 2u);
  EXPECT_EQ(readouts[1]["position"], 1);
}

TEST_F(Chat, ManyPromptEventsDoNotRunOutOfCredit) {
  auto x = chat({{"stream", true}, {"readouts", Json::parse("[[0,18]]")}});
  auto v = voice();
  int32_t credit = call()->credit.load();
  msg::TokenDetails details;
  details.readout = {1, 2, 3, 4};
  for (int i = 0; i < 300; ++i) v.prompt(uint32_t(i % 18), details);
  turn();
  EXPECT_GE(call()->credit.load(), credit + 256);
}

TEST_F(Chat, TokenIdsAreReturnedWhenAskedFor) {
  auto x = chat({{"stream", true}, {"return_token_ids", true}});
  auto v = voice();
  v.say("a");
  v.end();
  turn();
  auto all = events(x);
  EXPECT_EQ(all[0]["choices"][0]["prompt_token_ids"].size(), 18u);
  EXPECT_EQ(all[1]["choices"][0]["token_ids"], Json({97}));
  EXPECT_EQ(all[2]["choices"][0]["token_ids"], Json({256}));
}

TEST_F(Chat, PartsAreJoinedAndNullMembersAreNotThere) {
  auto x = chat({{"messages", Json::parse(R"([{"role":"user","name":null,"content":[{"type":"text","text":"a"},
                                             {"type":"text","text":"b"}]}])")}});
  EXPECT_EQ(support::prompt_of(*call()).substr(0, 5), "user:") << x->sent;
  EXPECT_NE(support::prompt_of(*call()).find("ab"), std::string::npos);
}

TEST_F(Chat, ImagesTakeTheirPlaceInThePrompt) {
  auto x = chat({{"messages", Json::parse(R"([{"role":"user","content":[{"type":"text","text":"x"},
      {"type":"image_url","image_url":{"url":"data:image/png;base64,YWJj"}}]}])")}});
  ASSERT_EQ(inbox().held.size(), 1u) << x->sent;
  EXPECT_NE(support::prompt_of(*call()).find("<257><258><258><258><259>"), std::string::npos)
      << support::prompt_of(*call());
  const auto& images = call()->generation->images;
  ASSERT_EQ(images.size(), 1u);
  EXPECT_EQ(images[0].data.view(), "abc");
  EXPECT_EQ(images[0].end - images[0].start, 5u);
  EXPECT_EQ(call()->generation->append[images[0].start], 257u);
}

TEST_F(Chat, ToolsReachTheTemplateUnlessNoneMayBeCalled) {
  Json tools = Json::parse(R"([{"type":"function","function":{"name":"f"}}])");
  auto x = chat({{"tools", tools}, {"tool_choice", "auto"}});
  EXPECT_EQ(support::prompt_of(*call()).substr(0, 8), "tools=1\n");
  auto y = chat({{"tools", tools}, {"tool_choice", "none"}});
  EXPECT_EQ(support::prompt_of(*call(1)).substr(0, 5), "user:");
}

// ---- Completions

TEST_F(Completions, TextLogprobsHaveOffsetsAndTheFirstOfAnEchoHasNone) {
  auto x = complete({{"echo", true}, {"logprobs", 1}, {"max_tokens", 1}, {"prompt", "aé"}});
  EXPECT_EQ(call()->generation->logprobs[0].start, 0u);
  auto v = voice();
  v.prompt(0, {});
  v.prompt(1, *likely(-1));
  v.prompt(2, *likely(-2));
  v.token('b', likely(-3, {{'c', -0.5F}}));
  v.done();
  turn();
  Json choice = json(x)["choices"][0];
  EXPECT_EQ(choice["text"], "aéb");
  EXPECT_EQ(choice["logprobs"]["tokens"], Json({"a", "bytes:\\xc3", "bytes:\\xa9", "b"}));
  EXPECT_EQ(choice["logprobs"]["text_offset"], Json({0, 1, 2, 2}));
  EXPECT_EQ(choice["logprobs"]["token_logprobs"], Json::parse("[null,-1.0,-2.0,-3.0]"));
  EXPECT_EQ(choice["logprobs"]["top_logprobs"][3], Json::parse(R"({"b":-3.0,"c":-0.5})"));
}

TEST_F(Completions, EchoWithoutTokensScoresThePrompt) {
  auto x = complete({{"echo", true}, {"logprobs", 0}, {"max_tokens", 0}});
  EXPECT_EQ(call()->generation->max_tokens, 0u);
  auto v = voice();
  v.prompt(0, {});
  v.prompt(1, *likely(-1.25F));
  v.done();
  turn();
  Json answer = json(x);
  EXPECT_EQ(answer["choices"][0]["text"], "ab");
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(answer["choices"][0]["logprobs"]["token_logprobs"], Json::parse("[null,-1.25]"));
  EXPECT_EQ(answer["usage"]["completion_tokens"], 0);
}

TEST_F(Completions, IndexIsPromptTimesNPlusChoice) {
  auto x = complete({{"prompt", {"a", "b"}}, {"n", 2}, {"max_tokens", 1}});
  ASSERT_EQ(inbox().held.size(), 4u);
  EXPECT_EQ(support::prompt_of(*call(1)), "a");
  EXPECT_EQ(support::prompt_of(*call(2)), "b");
  for (int i = 0; i < 4; ++i) voice(size_t(i)).say(std::to_string(i));
  while (!inbox().held.empty()) voice().done();
  turn();
  Json answer = json(x);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(answer["choices"][size_t(i)]["text"], std::to_string(i));
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 2);
}

TEST_F(Completions, PromptsMayBeTokenIds) {
  auto x = complete({{"prompt", Json::parse("[[97,98],[99]]")}, {"echo", true}, {"return_token_ids", true}});
  EXPECT_EQ(support::prompt_of(*call(0)), "ab");
  voice(0).done();
  voice(0).done();
  turn();
  Json answer = json(x);
  EXPECT_EQ(answer["choices"][0]["text"], "ab");
  EXPECT_EQ(answer["choices"][1]["prompt_token_ids"], Json({99}));
}

TEST_F(Completions, PromptLogprobsAreVllms) {
  auto x = complete({{"prompt_logprobs", 1}, {"max_tokens", 1}});
  auto v = voice();
  v.prompt(0, {});
  v.prompt(1, *likely(-2, {{'z', -1}}));
  v.say("c");
  v.done();
  turn();
  Json choice = json(x)["choices"][0];
  EXPECT_TRUE(choice["prompt_logprobs"][0].is_null());
  EXPECT_EQ(choice["prompt_logprobs"][1],
            Json::parse(
                R"({"122":{"logprob":-1.0,"rank":1,"decoded_token":"z"},"98":{"logprob":-2.0,"decoded_token":"b"}})"));
  EXPECT_TRUE(choice["logprobs"].is_null());
}

TEST_F(Completions, StreamBeginsWithTheEchoAndEndsWithTheReason) {
  auto x = complete({{"stream", true}, {"echo", true}});
  EXPECT_EQ(call()->generation->max_tokens, 16u);
  auto v = voice();
  v.say("cd");
  v.done();
  turn();
  auto all = events(x);
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0]["object"], "text_completion");
  EXPECT_EQ(all[0]["choices"][0]["text"], "abc");
  EXPECT_EQ(all[2]["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(text(all), "abcd");
}

TEST_F(Completions, OnlyTheLastTokensOfATruncatedPromptAreKept) {
  auto x = complete({{"prompt", "abcdef"}, {"truncate_prompt_tokens", 2}});
  EXPECT_EQ(support::prompt_of(*call()), "ef");
}

TEST_F(Completions, SamplingReachesTheEngine) {
  auto x = complete(Json::parse(R"({"top_k":5,"top_p":0.5,"min_p":0.1,"presence_penalty":1,"frequency_penalty":-1,
      "repetition_penalty":1.5,"logit_bias":{"97":-100},"min_tokens":2,"ignore_eos":true,"seed":-1,"priority":3,
      "cache_salt":"s","request_id":"r-1","user":"u","metadata":{"a":1},"best_of":1,"suffix":null,"stream":null})"));
  const auto& g = *call()->generation;
  EXPECT_EQ(g.sampling.top_k, 5u);
  EXPECT_EQ(g.sampling.top_p, 0.5F);
  EXPECT_EQ(g.sampling.min_p, 0.1F);
  EXPECT_EQ(g.sampling.presence_penalty, 1);
  EXPECT_EQ(g.sampling.frequency_penalty, -1);
  EXPECT_EQ(g.sampling.repetition_penalty, 1.5F);
  ASSERT_EQ(g.sampling.logit_bias.size(), 1u);
  EXPECT_EQ(g.sampling.logit_bias[0].second, -100);
  EXPECT_EQ(g.min_tokens, 2u);
  EXPECT_TRUE(g.ignore_eos);
  EXPECT_EQ(g.sampling.seed, ~uint64_t(0));
  EXPECT_EQ(call()->priority, 3u);
  EXPECT_NE(g.cache_salt, 0u);
  voice().done();
  turn();
  EXPECT_EQ(json(x)["id"], "cmpl-r-1");
}

// ---- Everything else

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
  EXPECT_EQ(json(x), Json::parse(R"({"object":"list","data":[{"object":"embedding","index":0,"embedding":[1.0,2.0]},
      {"object":"embedding","index":1,"embedding":[3.0,4.0]}],"model":"m","usage":{"prompt_tokens":3,"total_tokens":3}})"));
  auto y = embed({{"input", Json::parse("[97]")}, {"encoding_format", "base64"}});
  inbox().finish(call(), {vector(1, 2)});
  turn();
  EXPECT_EQ(json(y)["data"][0]["embedding"], "AACAPwAAAEA=");
  EXPECT_EQ(refusal(embed({{"input", "a"}, {"dimensions", 3}})), "400 invalid_request_error - dimensions");
  EXPECT_EQ(refusal(embed({{"input", ""}})), "400 invalid_request_error - input");
  EXPECT_EQ(refusal(embed({{"input", std::string(201, 'a')}})),
            "400 invalid_request_error context_length_exceeded input");
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
  EXPECT_EQ(refusal(embed({{"input", "a"}, {"dimensions", 5}})), "400 invalid_request_error - dimensions");
  EXPECT_EQ(refusal(embed({{"input", ""}})), "400 invalid_request_error - input");
  EXPECT_EQ(refusal(embed({{"input", Json::parse("[260]")}})), "400 invalid_request_error - input");
  EXPECT_EQ(refusal(embed({{"input", std::string(201, 'a')}})),
            "400 invalid_request_error context_length_exceeded input");
  EXPECT_EQ(
      refusal(open("POST", "/v1/chat/completions", R"({"model":"e","messages":[{"role":"user","content":"hi"}]})")),
      "400 invalid_request_error - model");
}

TEST_F(Encoders, TruncatedTextsKeepTheirBeginning) {
  auto x = embed({{"input", {"abcdef", Json::parse("[1,2,3,4,5,6,7]")}}, {"truncate_prompt_tokens", 3}});
  EXPECT_EQ(encoder().seen, (std::vector<std::string>{"e/1 rows=1 | input_ids INT64 [1,3] [97,98,99]",
                                                      "e/1 rows=1 | input_ids INT64 [1,3] [1,2,3]"}));
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
  bare->processor = nullptr;
  spec.encoder = bare;
  models.add(spec);
  bus.publish(models.catalog);
  EXPECT_EQ(refusal(embed({{"input", "a"}})), "400 invalid_request_error - input");
  EXPECT_EQ(refusal(open("POST", "/tokenize", R"({"model":"e","prompt":"ab"})")), "400 invalid_request_error - model");
  auto x = embed({{"input", Json::parse("[7]")}});
  EXPECT_EQ(encoder().seen.size(), 1u);
}

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
  EXPECT_EQ(refusal(open("GET", "/v1/models/nope")), "404 invalid_request_error model_not_found model");
}

TEST_F(Openais, TokenizeAndBack) {
  auto x = open("POST", "/tokenize", R"({"prompt":"hé","return_token_strs":true})");
  EXPECT_EQ(json(x),
            Json::parse(R"({"count":3,"max_model_len":200,"tokens":[104,195,169],"token_strs":["h","Ã","©"]})"));
  auto y = open("POST", "/tokenize", R"({"model":"m","messages":[{"role":"user","content":"x"}]})");
  EXPECT_EQ(json(y)["count"], 17);
  auto z = open("POST", "/detokenize", R"({"tokens":[104,195,169,256]})");
  EXPECT_EQ(json(z)["prompt"], "hé<|end|>");
  EXPECT_EQ(refusal(open("POST", "/detokenize", R"({"tokens":[260]})")), "400 invalid_request_error - tokens");
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
  options.api_keys = {"sk-one", "sk-two"};
  EXPECT_EQ(refusal(open("GET", "/v1/models")), "401 invalid_request_error invalid_api_key -");
  for (const char* bad :
       {"Bearer", "Bearer ", "Bearer sk-on", "Bearer sk-onee", "Bearer sk-twp", "sk-one", "Basic sk-one"})
    EXPECT_EQ(open("GET", "/v1/models", "", {{"authorization", bad}})->response.status, 401) << bad;
  EXPECT_EQ(open("POST", "/tokenize", "{}")->response.status, 401);
  EXPECT_EQ(open("GET", "/health")->response.status, 200);
  std::vector<uint64_t> salts;
  for (const char* good : {"Bearer sk-one", "bearer sk-two"}) {
    auto x = open("POST", "/v1/completions", R"({"prompt":"a"})", {{"authorization", good}});
    ASSERT_EQ(inbox().held.size(), 1u) << x->sent;
    salts.push_back(call()->generation->cache_salt);
    voice().done();
    turn();
  }
  EXPECT_NE(salts[0], salts[1]);
}

TEST_F(Openais, AnUnknownPathUnderAPrefixIsRefusedInTheSameForm) {
  EXPECT_EQ(open("GET", "/v1/nope")->response.status, 404);
  EXPECT_EQ(json(open("GET", "/v1/nope"))["error"]["type"], "invalid_request_error");
  EXPECT_EQ(open("GET", "/v1/completions")->response.status, 405);
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

// ---- Long texts, which workers make tokens of

class LongTexts : public OpenaiBench {
 protected:
  LongTexts() {
    models.add(support::text_spec("long", 100'000));
    bus.employ(workers);
  }
  Opened post(std::string path, Json body) {
    body["model"] = "long";
    return open("POST", std::move(path), body.dump());
  }
  support::ScriptedInbox& longs() { return models["long"]; }

  support::HeldWorkers workers;
  const std::string text = std::string(20'000, 'x');
  const Json messages = {{{"role", "user"}, {"content", text}}};
};

TEST_F(LongTexts, HoldUpNobodyElse) {
  auto x = post("/v1/chat/completions", {{"messages", messages}});
  ASSERT_EQ(workers.held.size(), 1u);
  EXPECT_GT(workers.held[0]->bytes, text.size());
  EXPECT_TRUE(longs().held.empty());
  auto y = complete({});
  ASSERT_EQ(inbox().held.size(), 1u) << "short ones are tokenized here";
  voice().end();
  turn();
  EXPECT_EQ(y->response.status, 200);
  workers.work();
  turn();
  ASSERT_EQ(longs().held.size(), 1u);
  EXPECT_EQ(support::prompt_of(*longs().held[0]), "user:" + text + "\nassistant:");
  Voice v{longs(), longs().held[0]};
  v.say("ok");
  v.end();
  turn();
  EXPECT_EQ(json(x)["choices"][0]["message"]["content"], "ok");
  EXPECT_EQ(json(x)["usage"]["prompt_tokens"], 20'016);
}

TEST_F(LongTexts, EveryEndpointSendsThemToTheWorkers) {
  auto completion = post("/v1/completions", {{"prompt", text}, {"echo", true}, {"stream", true}});
  auto embedding = post("/v1/embeddings", {{"input", text}});
  auto tokenized = post("/tokenize", {{"prompt", text}});
  auto chat_tokenized = post("/tokenize", {{"messages", messages}});
  auto detokenized = post("/detokenize", {{"tokens", std::vector<int>(20'000, 'y')}});
  EXPECT_EQ(workers.held.size(), 5u);
  EXPECT_TRUE(longs().held.empty());
  workers.work();
  turn();
  EXPECT_EQ(longs().held.size(), 2u);
  EXPECT_EQ(json(tokenized)["count"], 20'000);
  EXPECT_EQ(json(chat_tokenized)["count"], 20'016);
  EXPECT_EQ(json(detokenized)["prompt"], std::string(20'000, 'y'));
}

TEST_F(LongTexts, WhatIsWrongWithThemIsSaidAsAlways) {
  Json bad = {{{"role", "user"}, {"content", text}}, {{"role", 7}}};
  auto x = post("/v1/chat/completions", {{"messages", bad}});
  auto y = post("/v1/embeddings", {{"input", {text, ""}}});
  auto z = post("/detokenize", {{"tokens", std::vector<int>(20'000, 999)}});
  auto busy = post("/v1/completions", {{"prompt", text}});
  ASSERT_EQ(workers.held.size(), 4u);
  auto* last = workers.held.back();
  workers.held.pop_back();
  workers.work();
  workers.held.push_back(last);
  workers.refuse(base::try_again(Code::kResourceExhausted, "too many"));
  turn();
  EXPECT_EQ(refusal(x), "400 invalid_request_error - messages");
  EXPECT_EQ(refusal(y), "400 invalid_request_error - input");
  EXPECT_EQ(refusal(z), "400 invalid_request_error - tokens");
  EXPECT_EQ(busy->response.status, 429);
}

TEST_F(LongTexts, AClientMayLeaveAtAnyTime) {
  auto before = post("/v1/chat/completions", {{"messages", messages}, {"stream", true}});
  ASSERT_EQ(workers.held.size(), 1u);
  before.reset();
  EXPECT_TRUE(workers.held[0]->cancelled.load());
  EXPECT_EQ(workers.pokes, 1);
  workers.work();  // it was at it already
  turn();
  EXPECT_TRUE(longs().held.empty());
  auto behind = post("/v1/chat/completions", {{"messages", messages}, {"stream", true}});
  workers.work();
  turn();
  ASSERT_EQ(longs().held.size(), 1u);
  behind.reset();
  EXPECT_TRUE(longs().held[0]->cancelled.load());
}

TEST_F(LongTexts, AModelIsThereUntilTheAnswerThoughItIsUnloadedMeanwhile) {
  auto x = post("/v1/completions", {{"prompt", text}});
  auto served = models.catalog->models.at("long").versions.at("1");
  bus.publish(std::make_shared<const bus::Catalog>());
  EXPECT_FALSE(served->idle());
  workers.work();
  turn();
  ASSERT_EQ(longs().held.size(), 1u);
  EXPECT_FALSE(served->idle());
  Voice{longs(), longs().held[0]}.end();
  turn();
  EXPECT_EQ(x->response.status, 200);
  EXPECT_TRUE(served->idle());
}

TEST_F(Chat, AnObjectWithVeryManyMembersIsRefused) {
  Json crowd;
  for (int i = 0; i < 600; ++i) crowd["k" + std::to_string(i)] = i;
  auto tool = [](Json parameters) { return Json::array({{{"type", "function"}, {"parameters", parameters}}}); };
  auto x = chat({{"tools", tool(crowd)}});
  EXPECT_EQ(refusal(x), "400 invalid_request_error - tools");
  crowd.erase("k1");
  for (int i = 2; i < 200; ++i) crowd.erase("k" + std::to_string(i));
  crowd["text"] = std::string(5000, ':') + "\\\"{";
  auto y = chat({{"tools", tool(crowd)}});
  EXPECT_FALSE(y->headed) << y->sent;
}

}  // namespace
}  // namespace weir::openai
