// Chat as one answer, and what its members ask of the engine.
#include "bench.h"

#include <limits>

#include "dialects/openai/turns.h"

namespace weir::openai {
namespace {

using Chat = OpenaiBench;

TEST_F(Chat, WholeAnswerHasChoicesAndUsage) {
  auto x = chat({{"max_completion_tokens", 5}, {"seed", 7}, {"n", 2}, {"temperature", 0.5}});
  EXPECT_EQ(call(0)->generation->max_tokens, 5u);
  EXPECT_EQ(call(0)->generation->sampling.temperature, 0.5F);
  EXPECT_EQ(call(0)->generation->sampling.seed, 7u);
  EXPECT_EQ(call(1)->generation->sampling.seed, 8u);
  auto first = scripted(0), second = scripted(1);
  second.emit("two");
  first.emit("one");
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
  EXPECT_EQ(answer["choices"][0]["message"].value("refusal", Json("absent")), Json());
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(answer["choices"][1]["message"]["content"], "two");
  EXPECT_EQ(answer["choices"][1]["finish_reason"], "length");
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 18);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 7);
  EXPECT_EQ(x->response.fields.find("content-type"), "application/json");
  EXPECT_EQ(x->record().version, "1");
  EXPECT_EQ(x->record().compute, std::chrono::microseconds(30)) << "they ran side by side";
}

TEST_F(Chat, WithoutMaxTokensTheContextIsTheLimit) {
  auto x = chat({});
  EXPECT_EQ(call()->generation->max_tokens, 200u - 18);
}

// Texts of two messages that met would be read as one word. What of a message is no text stands between by itself.
TEST(Turns, MessagesThatBecomeOneHaveALineBetweenTheirTexts) {
  using Parts = std::vector<TurnJson>;
  const auto part = [](const char* text) { return TurnJson{{"type", "text"}, {"text", text}}; };
  const TurnJson image{{"type", "image"}};
  const auto joined = [](TurnJson a, TurnJson b) {
    const TurnJson one{{"role", "user"}, {"content", std::move(a)}}, two{{"role", "user"}, {"content", std::move(b)}};
    const TurnJson out = as_alternating_turns(TurnJson::array({one, two}));
    EXPECT_EQ(out.size(), 1u);
    return out[0]["content"];
  };
  const TurnJson a = TurnJson(Parts{part("a")}), b = TurnJson(Parts{part("b"), part("c")});
  EXPECT_EQ(joined("a", "b"), "a\n\nb");
  EXPECT_EQ(joined("a", b), TurnJson(Parts{part("a\n\nb"), part("c")}));
  EXPECT_EQ(joined(a, "b"), TurnJson(Parts{part("a\n\nb")}));
  EXPECT_EQ(joined(a, b), TurnJson(Parts{part("a\n\nb"), part("c")}));
  EXPECT_EQ(joined(TurnJson(Parts{image}), "b"), TurnJson(Parts{image, part("b")}));
  EXPECT_EQ(joined("a", TurnJson(Parts{image, part("b")})), TurnJson(Parts{part("a"), image, part("b")}));
  EXPECT_EQ(joined(TurnJson(Parts{image}), TurnJson(Parts{image})), TurnJson(Parts{image, image}));
  EXPECT_EQ(joined(TurnJson::array(), b), b);
  EXPECT_EQ(joined(a, TurnJson::array()), a);
}

TEST_F(Chat, LogprobsHaveTextBytesAndAlternatives) {
  auto x = chat({{"logprobs", true}, {"top_logprobs", 2}});
  const auto& g = *call()->generation;
  EXPECT_EQ(g.top_logprobs, 2u);
  ASSERT_EQ(g.logprobs.size(), 1u);
  EXPECT_EQ(g.logprobs[0].start, 18u);
  auto v = scripted();
  v.token('A', likely(-0.5F, {{'A', -0.5F}, {0xe2, -1.5F}}));
  v.done();
  turn();
  EXPECT_EQ(json(x)["choices"][0]["logprobs"].value("refusal", Json("absent")), Json());
  EXPECT_EQ(json(x)["choices"][0]["logprobs"]["content"],
            Json::parse(R"([{"token":"A","logprob":-0.5,"bytes":[65],"top_logprobs":[)"
                        R"({"token":"A","logprob":-0.5,"bytes":[65]},{"token":"�","logprob":-1.5,"bytes":[226]}]}])"));
}

TEST_F(Chat, LogprobsRideInTheChunkOfTheirToken) {
  auto x = chat({{"logprobs", true}, {"stream", true}});
  auto v = scripted();
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
  auto v = scripted();
  v.token('A', details);
  v.done();
  turn();
  EXPECT_EQ(events(x)[1]["choices"][0]["readouts"],
            Json::parse(R"([{"position":18,"token_id":65,"values":[[1.0,2.0],[3.0,4.0]]}])"));
}

TEST_F(Chat, ReadoutsOfPromptPositionsComeWithTheFirstChunk) {
  auto x = chat({{"readouts", Json::parse("[[0,2]]")}});
  auto v = scripted();
  msg::TokenDetails details;
  details.readout = {1, 2, 3, 4};
  v.prompt(0, details);
  v.prompt(1, details);
  v.emit("a");
  v.done();
  turn();
  Json readouts = json(x)["choices"][0]["readouts"];
  ASSERT_EQ(readouts.size(), 2u);
  EXPECT_EQ(readouts[1]["position"], 1);
}

TEST_F(Chat, ManyPromptEventsDoNotRunOutOfCredit) {
  auto x = chat({{"stream", true}, {"readouts", Json::parse("[[0,18]]")}});
  auto v = scripted();
  int32_t credit = call()->credit.load();
  msg::TokenDetails details;
  details.readout = {1, 2, 3, 4};
  for (int i = 0; i < 300; ++i) v.prompt(uint32_t(i % 18), details);
  turn();
  EXPECT_GE(call()->credit.load(), credit + 256);
}

TEST_F(Chat, TokenIdsAreReturnedWhenAskedFor) {
  auto x = chat({{"stream", true}, {"return_token_ids", true}});
  auto v = scripted();
  v.emit("a");
  v.end();
  turn();
  auto all = events(x);
  EXPECT_EQ(all[0]["prompt_token_ids"].size(), 18u);
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
      {"type":"image_url","image_url":{"url":"data:image/png;base64,YW\r\nJj"}}]}])")}});
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
  auto& held = models.add(support::tools_spec("hermes", "{# <tool_call> #}")).held;
  auto x = chat({{"model", "hermes"}, {"tools", tools}, {"tool_choice", "auto"}});
  ASSERT_EQ(held.size(), 1u) << x->sent;
  EXPECT_EQ(support::prompt_of(*held[0]).substr(0, 8), "tools=1\n");
  auto y = chat({{"model", "hermes"}, {"tools", tools}, {"tool_choice", "none"}});
  EXPECT_EQ(support::prompt_of(*held[1]).substr(0, 5), "user:");
}

TEST_F(Chat, AnObjectWithVeryManyMembersIsRefused) {
  Json crowd;
  for (int i = 0; i < 600; ++i) crowd["k" + std::to_string(i)] = i;
  auto tool = [](Json parameters) {
    return Json::array({{{"type", "function"}, {"function", {{"name", "f"}, {"parameters", parameters}}}}});
  };
  auto x = chat({{"tools", tool(crowd)}, {"tool_choice", "none"}});
  EXPECT_EQ(error(x), "400 invalid_request_error - tools");
  crowd.erase("k1");
  for (int i = 2; i < 200; ++i) crowd.erase("k" + std::to_string(i));
  crowd["text"] = std::string(5000, ':') + "\\\"{";
  auto y = chat({{"tools", tool(crowd)}, {"tool_choice", "none"}});
  EXPECT_FALSE(y->headed) << y->sent;
}

TEST_F(Chat, ADeveloperIsTheSystemUnlessTheTemplateKnowsOne) {
  const Json said = Json::parse(R"([{"role":"developer","content":"be"},{"role":"user","content":"hi"}])");
  chat({{"messages", said}});
  EXPECT_EQ(support::prompt_of(*call()), "system:be\nuser:hi\nassistant:");
  models.add(support::tools_spec("d", "{% if messages[0].role == 'developer' %}!{% endif %}"));
  auto x = chat({{"model", "d"}, {"messages", said}});
  ASSERT_EQ(models["d"].held.size(), 1u) << x->sent;
  EXPECT_EQ(support::prompt_of(*models["d"].held[0]), "!developer:be\nuser:hi\nassistant:");
}

TEST_F(Chat, InstructionsThatTheTemplateLeavesOutComeFirst) {
  models.add(support::tools_spec("first",
                                 "{% set messages = messages[:1] + (messages[1:] | rejectattr('role', 'equalto', "
                                 "'system') | list) %}"));
  const Json said = Json::parse(R"([{"role":"system","content":"one "},{"role":"system","content":[
      {"type":"text","text":"two"}]},{"role":"user","content":"hi"}])");
  auto x = chat({{"model", "first"}, {"messages", said}});
  ASSERT_EQ(models["first"].held.size(), 1u) << x->sent;
  EXPECT_EQ(support::prompt_of(*models["first"].held[0]), "system:one \n\ntwo\nuser:hi\nassistant:");
  chat({{"messages", said}});
  EXPECT_EQ(support::prompt_of(*call()), "system:one \nsystem:two\nuser:hi\nassistant:") << "its place";
  models.add(support::tools_spec("json", "{% set messages = [{'role': 'user', 'content': messages | tojson}] %}"));
  chat({{"model", "json"}, {"messages", Json::parse(R"([{"role":"user","content":"hi"},
                                                        {"role":"system","content":"the \"two\"\nof us"}])")}});
  EXPECT_EQ(support::prompt_of(*models["json"].held[0]).find("user:[{\"content\": \"hi\""), 0u) << "it is there";
}

}  // namespace
}  // namespace weir::openai
