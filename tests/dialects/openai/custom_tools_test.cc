// Custom tools of a chat: functions of one text to the model, calls of type "custom" to the client.
#include "dialects/openai/custom_tools.h"

#include "bench.h"
#include "dialects/openai/responses/input.h"

namespace weir::openai {
namespace {

class CustomTools : public OpenaiBench {
 protected:
  CustomTools() {
    models.add(support::tools_spec("hermes", "{# <tool_call> #}{{ tools | tojson }}|{{ messages | tojson }}"));
  }
  static Json custom(std::string name, Json format = {{"type", "text"}}) {
    return {{"type", "custom"},
            {"custom", {{"name", std::move(name)}, {"description", "Runs."}, {"format", std::move(format)}}}};
  }
  Opened ask(Json body, const std::string& answer = {}, bool ends = true) {
    body["model"] = "hermes";
    body.emplace("tools", Json::array({custom("run"), {{"type", "function"}, {"function", {{"name", "f"}}}}}));
    auto x = chat(std::move(body));
    if (models["hermes"].held.empty()) return x;
    ScriptedAnswer says{models["hermes"], models["hermes"].held.back()};
    says.emit(answer);
    if (ends)
      says.end();
    else
      says.done();
    turn();
    return x;
  }
  static constexpr const char* kTwo =
      "<tool_call>\n{\"name\": \"run\", \"arguments\": {\"input\": \"ls \\\"-l\\\"\\n\"}}\n</tool_call>"
      "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>"
      "<tool_call>{\"name\": \"run\", \"arguments\": {\"input\": \"\"}}</tool_call>";
};

TEST_F(CustomTools, TheirCallsHaveATextAndThoseOfFunctionsHaveNone) {
  auto x = ask({}, kTwo);
  const Json choice = json(x)["choices"][0], calls = choice["message"]["tool_calls"];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  ASSERT_EQ(calls.size(), 3u) << x->sent;
  EXPECT_EQ(calls[0]["type"], "custom");
  EXPECT_EQ(calls[0]["custom"], Json({{"name", "run"}, {"input", "ls \"-l\"\n"}}));
  EXPECT_EQ(calls[1]["type"], "function");
  EXPECT_EQ(calls[1]["function"], Json({{"name", "f"}, {"arguments", "{\"a\": 1}"}}));
  EXPECT_EQ(calls[2]["custom"]["input"], "");
}

TEST_F(CustomTools, AStreamTellsEachInOneChunk) {
  auto x = ask({{"stream", true}}, kTwo);
  std::vector<Json> told;
  for (const Json& event : events(x)) {
    if (!event.is_object()) continue;  // the last, [DONE]
    for (const Json& choice : event.value("choices", Json::array()))
      for (const Json& call : choice["delta"].value("tool_calls", Json::array())) told.push_back(call);
  }
  ASSERT_GE(told.size(), 3u) << x->sent;
  EXPECT_EQ(told.front()["custom"], Json({{"name", "run"}, {"input", "ls \"-l\"\n"}}));
  EXPECT_EQ(told.front()["index"], 0);
  EXPECT_EQ(told.back()["custom"], Json({{"name", "run"}, {"input", ""}}));
  EXPECT_EQ(told.back()["index"], 2);
  EXPECT_EQ(std::count_if(told.begin(), told.end(), [](const Json& call) { return call.contains("custom"); }), 2);
}

TEST_F(CustomTools, OneThatIsCutForItsLengthHasTheTextSoFar) {
  auto x = ask({}, "<tool_call>{\"name\": \"run\", \"arguments\": {\"input\": \"ls -", false);
  const Json choice = json(x)["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(choice["message"]["tool_calls"][0]["custom"]["input"], "ls -") << x->sent;
}

TEST_F(CustomTools, TheModelSeesFunctionsOfOneText) {
  const Json grammar{{"type", "grammar"}, {"grammar", {{"syntax", "regex"}, {"definition", "[0-9]+"}}}};
  const Json turn{{"role", "assistant"},
                  {"tool_calls", {{{"id", "c1"}, {"type", "custom"}, {"custom", {{"name", "run"}, {"input", "7"}}}}}}};
  auto x = chat(
      {{"model", "hermes"},
       {"tools", {custom("run", grammar)}},
       {"messages",
        {{{"role", "user"}, {"content", "x"}}, turn, {{"role", "tool"}, {"tool_call_id", "c1"}, {"content", "ok"}}}}});
  ASSERT_EQ(models["hermes"].held.size(), 1u) << x->sent;
  std::string prompt;
  for (uint32_t id : models["hermes"].held[0]->generation->append) prompt += char(id);
  EXPECT_NE(prompt.find("\"pattern\""), std::string::npos) << prompt;
  EXPECT_NE(prompt.find("[0-9]+"), std::string::npos);
  EXPECT_EQ(prompt.find("\"custom\""), std::string::npos);
  EXPECT_NE(prompt.find("\"arguments\""), std::string::npos);
}

TEST_F(CustomTools, OneCanBeChosen) {
  const Json choice{{"type", "custom"}, {"custom", {{"name", "run"}}}};
  auto x = ask({{"tool_choice", choice}}, "{\"name\": \"run\", \"arguments\": {\"input\": \"a\"}}");
  ASSERT_EQ(x->response.status, 200) << x->sent;
  const Json allowed{{"type", "allowed_tools"}, {"allowed_tools", {{"mode", "auto"}, {"tools", {choice}}}}};
  EXPECT_EQ(ask({{"tool_choice", allowed}}, "x")->response.status, 200);
}

TEST_F(CustomTools, AnExpressionIsHeldToOrRefused) {
  for (const auto& [syntax, is] : {std::pair("regex", true), std::pair("lark", false)}) {
    nlohmann::ordered_json function{{"name", "run"}};
    responses::describe_custom({{"format", {{"type", "grammar"}, {"syntax", syntax}, {"definition", "a"}}}}, function);
    EXPECT_EQ(function.value("strict", false), is) << "a strict schema of a call is refused where it is not supported";
  }
}

TEST_F(CustomTools, AnExpressionStaysInsideOfWhatIsPutAroundIt) {
  const auto pattern = [](const char* definition) {
    nlohmann::ordered_json function{{"name", "run"}};
    responses::describe_custom({{"format", {{"type", "grammar"}, {"syntax", "regex"}, {"definition", definition}}}},
                               function);
    EXPECT_TRUE(function.value("strict", false)) << definition;
    return function["parameters"]["properties"]["input"]["pattern"].get<std::string>();
  };
  for (const char* whole : {"a|b", "^a$", "(a)|(b)", "a\\)|\\(b", "[)]|[(]", "[\\])]", "(?<n>[^(])", ""})
    EXPECT_EQ(pattern(whole), "^(?:" + std::string(whole) + ")$");
  for (const char* broken : {"a)|(b", "(", ")", "[]a)|(b", "[^])|(b[^]", "[a", "a\\", "\\\\)|(a"})
    EXPECT_EQ(pattern(broken), broken) << "it is refused as it is";
}

TEST_F(CustomTools, MistakesAreNamed) {
  const std::pair<Json, const char*> wrong[] = {
      {{{"type", "custom"}}, "tools[0].custom: expected an object with a name"},
      {{{"type", "custom"}, {"custom", {{"name", 1}}}}, "tools[0].custom: expected an object with a name"},
      {custom("a b"), "tools[0].function.name: expected up to 128 letters, digits, and _ - . : /"},
      {custom("run", "text"), "tools[0].custom.format: expected an object with a type"},
      {custom("run", {{"type", "json"}}), "tools[0].custom.format.type: takes \"text\" or \"grammar\""},
      {custom("run", {{"type", "grammar"}}), "tools[0].custom.format.grammar: takes syntax and definition"},
      {custom("run", {{"type", "grammar"}, {"grammar", {{"syntax", "bnf"}, {"definition", ""}}}}),
       "tools[0].custom.format.grammar.syntax: takes \"lark\" or \"regex\""}};
  for (const auto& [tool, text] : wrong) {
    auto x = ask({{"tools", {tool}}});
    EXPECT_EQ(x->response.status, 400) << x->sent;
    EXPECT_EQ(json(x)["error"]["message"], text);
  }
  for (const Json& other : {custom("run"), Json{{"type", "function"}, {"function", {{"name", "run"}}}}}) {
    auto x = ask({{"tools", {other, custom("run")}}});
    EXPECT_EQ(x->response.status, 400) << x->sent;
    EXPECT_EQ(json(x)["error"]["message"], "tools: two of them have the name 'run'");
  }
  const Json turn{{"role", "assistant"},
                  {"tool_calls", {{{"id", "c"}, {"type", "custom"}, {"custom", {{"name", "f"}}}}}}};
  auto x = ask({{"messages", {{{"role", "user"}, {"content", "x"}}, turn}}});
  EXPECT_EQ(json(x)["error"]["message"], "messages[1].tool_calls: a custom call has a name and an input");
}

}  // namespace
}  // namespace weir::openai
