// OpenAI's older members `functions` and `function_call`, which stand for tools.
#include "bench.h"

namespace weir::openai {
namespace {

class Functions : public OpenaiBench {
 protected:
  Functions() { models.add(support::tools_spec("hermes", "{# <tool_call> #}")); }
  Opened ask(Json body) {
    body["model"] = "hermes";
    body.emplace("functions", Json::parse(R"([{"name":"f","description":"d","parameters":{"type":"object"}}])"));
    return chat(std::move(body));
  }
  ScriptedAnswer says() { return {models["hermes"], models["hermes"].held.at(0)}; }
  static constexpr const char* kCall = "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>";
};

TEST_F(Functions, OneCallIsTheMessagesFunctionCall) {
  auto x = ask({{"function_call", "auto"}});
  ASSERT_EQ(models["hermes"].held.size(), 1u) << x->sent;
  says().emit(std::string(kCall) + kCall);
  turn();
  const Json choice = json(x)["choices"][0];
  EXPECT_EQ(choice["message"]["function_call"], Json::parse(R"({"name":"f","arguments":"{\"a\": 1}"})"));
  EXPECT_EQ(choice["message"]["content"], Json());
  EXPECT_FALSE(choice["message"].contains("tool_calls"));
  EXPECT_EQ(choice["finish_reason"], "function_call");
}

TEST_F(Functions, AStreamTellsTheCallInPieces) {
  auto x = ask({{"stream", true}});
  says().emit(kCall);
  says().end();
  turn();
  std::string name, arguments, reason;
  for (const Json& event : events(x)) {
    if (!event.is_object()) continue;
    const Json& choice = event["choices"][0];
    if (choice["finish_reason"].is_string()) reason = choice["finish_reason"];
    if (!choice["delta"].contains("function_call")) continue;
    name += choice["delta"]["function_call"].value("name", "");
    arguments += choice["delta"]["function_call"].value("arguments", "");
  }
  EXPECT_EQ(name, "f");
  EXPECT_EQ(Json::parse(arguments), Json::parse(R"({"a":1})"));
  EXPECT_EQ(reason, "function_call");
}

TEST_F(Functions, ANamedOneIsHeldToAndNoneIsNotShown) {
  auto x = ask({{"function_call", {{"name", "f"}}}});
  ASSERT_EQ(models["hermes"].held.size(), 1u) << x->sent;
  EXPECT_TRUE(models["hermes"].held[0]->generation->constraint);
  models.finish_all();
  turn();
  auto y = ask({{"function_call", "none"}});
  ASSERT_EQ(models["hermes"].held.size(), 1u) << y->sent;
  EXPECT_FALSE(models["hermes"].held[0]->generation->constraint);
}

TEST_F(Functions, TurnsWithThemAreThoseOfTools) {
  auto x = ask({{"messages", Json::parse(R"([{"role":"user","content":"hi"},
      {"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},
      {"role":"function","name":"f","content":"2"}])")}});
  ASSERT_EQ(models["hermes"].held.size(), 1u) << x->sent;
  EXPECT_NE(support::prompt_of(*models["hermes"].held[0]).find("tool:2"), std::string::npos);
}

TEST_F(Functions, WhatIsWrongIsNamed) {
  EXPECT_EQ(error(ask({{"functions", 5}})), "400 invalid_request_error - functions");
  EXPECT_EQ(error(ask({{"functions", Json::parse("[{}]")}})), "400 invalid_request_error - functions");
  EXPECT_EQ(error(ask({{"function_call", "always"}})), "400 invalid_request_error - function_call");
  EXPECT_EQ(error(ask({{"function_call", Json::object()}})), "400 invalid_request_error - function_call");
  EXPECT_EQ(error(ask({{"tools", Json::parse(R"([{"type":"function","function":{"name":"g"}}])")}})),
            "400 invalid_request_error - functions");
  EXPECT_EQ(error(chat({{"function_call", "auto"}})), "400 invalid_request_error - function_call");
  auto unknown = ask({{"function_call", {{"name", "g"}}}});
  EXPECT_EQ(error(unknown), "400 invalid_request_error - function_call");
  EXPECT_EQ(message(unknown), "function_call: no tool has the name 'g'");
  EXPECT_EQ(message(ask({{"functions", Json::parse("[5]")}})), "functions: expected an object");
}

TEST_F(Functions, AnEmptyListBesideTheOtherAsksForNothing) {
  auto x = ask({{"tools", Json::array()}, {"function_call", "auto"}});
  ASSERT_EQ(models["hermes"].held.size(), 1u) << x->sent;
  says().emit(kCall);
  says().end();
  turn();
  EXPECT_EQ(json(x)["choices"][0]["message"]["function_call"]["name"], "f");
  auto y =
      ask({{"functions", Json::array()}, {"tools", Json::parse(R"([{"type":"function","function":{"name":"f"}}])")}});
  ASSERT_EQ(models["hermes"].held.size(), 1u) << y->sent;
  says().emit(kCall);
  says().end();
  turn();
  EXPECT_EQ(json(y)["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "f");
}

TEST_F(Functions, ANameThatIsNoStringIsNamed) {
  for (const char* turn : {R"({"role":"function","name":5,"content":"2"})",
                           R"({"role":"assistant","content":null,"function_call":{"name":5,"arguments":"{}"}})"}) {
    auto x = ask({{"messages", Json::array({Json::parse(turn)})}});
    EXPECT_EQ(error(x), "400 invalid_request_error - messages");
    EXPECT_EQ(message(x), "messages[0]: the name of a function is a string");
  }
}

}  // namespace
}  // namespace weir::openai
