// Tools of the Responses API that are not functions, and the items of their calls.
#include "dialects/openai/responses/input.h"
#include "responses_bench.h"

namespace weir::openai {
namespace {

class ResponseTools : public Responses {
 protected:
  // The answer of the model, which writes calls as <tool_call>.
  Json answer(Json body, const std::string& says) {
    auto x = write(std::move(body), says);
    return json(x);
  }
  Opened write(Json body, const std::string& says) {
    body["model"] = "qwen";
    auto x = ask(std::move(body));
    if (models["qwen"].held.empty()) return x;
    ScriptedAnswer writes{models["qwen"], models["qwen"].held[0]};
    writes.emit(says);
    writes.end();
    turn();
    return x;
  }
  static std::string call_of(const std::string& name, const std::string& arguments) {
    return R"(<tool_call>{"name":")" + name + R"(","arguments":)" + arguments + "}</tool_call>";
  }
  // A coding agent's: a function, a namespace, a free-form tool, and what only its maker's servers run.
  const Json agents = Json::parse(R"([
      {"type":"function","name":"run","description":"Runs it","strict":false,"parameters":{"type":"object"}},
      {"type":"namespace","name":"agents","description":"Other agents","tools":[
        {"type":"function","name":"stop","strict":false,"parameters":{"type":"object"}}]},
      {"type":"custom","name":"patch","description":"Edits","format":{"type":"grammar","syntax":"lark","definition":"start: /x/"}},
      {"type":"web_search","external_web_access":false},{"type":"image_generation"},{"type":"local_shell"}])");
};

TEST_F(ResponseTools, WhatTheServerDoesNotRunIsLeftOut) {
  auto x = ask({{"model", "qwen"},
                {"tools", agents},
                {"tool_choice", "auto"},
                {"client_metadata", {{"session", "s"}}},
                {"prompt_cache_options", {{"ttl", "30m"}}},
                {"reasoning", {{"summary", "auto"}}},
                {"include", {"reasoning.encrypted_content"}}});
  ASSERT_EQ(models["qwen"].held.size(), 1u) << x->sent;
  auto alone = ask({{"model", "qwen"}, {"tools", {{{"type", "web_search_preview"}}}}});
  EXPECT_EQ(models["qwen"].held.size(), 2u) << alone->sent;
  EXPECT_EQ(refusal(ask({{"tools", agents}, {"tool_choice", {{"type", "web_search"}}}})),
            "400 tool_choice: tool_choice: this server has no tool 'web_search'");
  EXPECT_EQ(refusal(ask({{"tools", {{{"type", "web_search"}}}}, {"tool_choice", "required"}})),
            "400 tool_choice: tool_choice: there are no tools to call");
  EXPECT_EQ(refusal(ask({{"tools", {{{"type", "functoin"}, {"name", "f"}}}}})),
            "400 tools: tools: those of type 'functoin' are not offered");
  EXPECT_EQ(refusal(ask({{"moderation", {{"model", "x"}}}})), "400 moderation: moderation: not offered");
}

TEST_F(ResponseTools, WhatIsWrongWithAToolIsNamedAsTheClientWroteIt) {
  Json wrong = agents;
  wrong.insert(wrong.begin(), Json::parse(R"({"type":"web_search"})"));
  const auto text_of = [&](const Json& all) { return refusal(ask({{"tools", all}})).substr(0, 60); };
  wrong[1]["name"] = "a b";
  EXPECT_EQ(text_of(wrong), "400 tools: tools[1].name: expected up to 128 letters, digits");
  wrong[1] = {{"type", "function"}, {"name", "f"}, {"strict", 1}};
  EXPECT_EQ(text_of(wrong), "400 tools: tools[1].strict: expected true or false");
  wrong[1] = {{"type", "function"}, {"name", "f"}, {"parameters", {{"type", "array"}}}};
  EXPECT_EQ(text_of(wrong).substr(0, 36), "400 tools: tools[1].parameters: argu");
  wrong[1] = agents[0];
  wrong[2]["tools"][0]["description"] = 1;
  EXPECT_EQ(text_of(wrong), "400 tools: tools[2].tools[0].description: expected a string");
}

TEST_F(ResponseTools, ACallOfANamespaceComesBackUnderItsOwnNames) {
  const Json made = answer({{"tools", agents}}, call_of("agents__stop", R"({"id":"1"})"));
  ASSERT_EQ(made["output"].size(), 1u) << made;
  const Json& call = made["output"][0];
  EXPECT_EQ(call["type"], "function_call");
  EXPECT_EQ(call["name"], "stop");
  EXPECT_EQ(call["namespace"], "agents");
  EXPECT_EQ(call["arguments"], R"({"id":"1"})");
  EXPECT_EQ(made["tools"], agents) << "they are repeated as they came";
}

TEST_F(ResponseTools, ACallOfACustomToolIsItsInput) {
  const std::string says = call_of("patch", R"({"input":"a\nb"})");
  const Json made = answer({{"tools", agents}}, says);
  ASSERT_EQ(made["output"].size(), 1u) << made;
  EXPECT_EQ(made["output"][0]["type"], "custom_tool_call");
  EXPECT_EQ(made["output"][0]["name"], "patch");
  EXPECT_EQ(made["output"][0]["input"], "a\nb");
  EXPECT_FALSE(made["output"][0].contains("arguments"));
  models["qwen"].held.clear();
  auto stream = write({{"tools", agents}, {"stream", true}}, says);
  std::string delta, done;
  for (const Json& event : events(stream)) {
    if (event["type"] == "response.custom_tool_call_input.delta") delta += event["delta"].get<std::string>();
    if (event["type"] == "response.custom_tool_call_input.done") done = event["input"];
    EXPECT_FALSE(event["type"].get<std::string>().starts_with("response.function_call")) << event;
  }
  EXPECT_EQ(delta, "a\nb");
  EXPECT_EQ(done, delta);
}

TEST_F(ResponseTools, ArgumentsOfACustomToolThatAreNoneAreItsInput) {
  const Json made = answer({{"tools", agents}}, call_of("patch", R"({"text":"a"})"));
  EXPECT_EQ(made["output"][0]["input"], R"({"text":"a"})");
}

TEST_F(ResponseTools, ACustomCallThatIsCutHasTheTextSoFar) {
  for (auto [written, input] :
       {std::pair{R"({"inp)", ""}, std::pair{R"({"input": )", ""}, std::pair{R"({"input": "a\nb)", "a\nb"},
        std::pair{R"({"input":"a\)", "a"}, std::pair{R"({"input":"a\ud83d\ude)", "a"},
        std::pair{R"({"input":"a")", "a"}, std::pair{R"({"text":"a)", R"({"text":"a)"}})
    EXPECT_EQ(responses::custom_input(written), input) << written;
}

TEST_F(ResponseTools, ItemsOfAnInputAreAsTheClientHasThem) {
  const Json input = Json::parse(R"([{"role":"user","content":"hi"},
      {"type":"custom_tool_call","call_id":"c1","name":"patch","input":"a"},
      {"type":"custom_tool_call_output","call_id":"c1","output":"1"},
      {"type":"function_call","call_id":"c3","namespace":"agents","name":"stop","arguments":"{}"},
      {"type":"function_call_output","call_id":"c3","output":"3"}])");
  const std::string id = answer({{"tools", agents}, {"input", input}}, "so")["id"];
  const Json items = json(open("GET", "/v1/responses/" + id + "/input_items?order=asc"))["data"];
  ASSERT_EQ(items.size(), input.size()) << items;
  for (size_t i = 1; i < input.size(); ++i)
    for (const auto& [name, value] : input[i].items()) {
      if (name == "output") continue;
      EXPECT_EQ(items[i][name], value) << items[i];
    }
}

TEST_F(ResponseTools, AChoiceNamesThemAsTheClientDoes) {
  auto held = [&](Json choice, const std::string& text) {
    const size_t before = inbox().held.size();
    auto x = ask({{"tools", agents}, {"tool_choice", std::move(choice)}});
    if (inbox().held.size() == before) return x->sent;
    for (char c : text)
      if (!call(before)->generation->constraint->accept(uint8_t(c))) return "not " + text;
    return std::string();
  };
  EXPECT_EQ(held({{"type", "function"}, {"name", "stop"}}, R"({"name": "agents__stop")"), "");
  EXPECT_EQ(held({{"type", "custom"}, {"name", "patch"}}, R"({"name": "patch", "parameters": {"input":")"), "");
  EXPECT_EQ(held({{"type", "allowed_tools"},
                  {"mode", "required"},
                  {"tools", {{{"type", "custom"}, {"name", "patch"}}, {{"type", "web_search"}}}}},
                 R"({"name": "patch")"),
            "");
  EXPECT_NE(held({{"type", "function"}, {"name", "start"}}, "").find("has the name 'start'"), std::string::npos);
}

TEST_F(ResponseTools, ItemsOfTheirCallsAreTurns) {
  auto x = ask({{"input", Json::parse(R"([{"role":"user","content":"hi"},
      {"type":"reasoning","id":"r","summary":[],"encrypted_content":"x"},
      {"type":"web_search_call","id":"w","status":"completed","action":{"type":"search","query":"q"}},
      {"type":"custom_tool_call","call_id":"c1","name":"patch","input":"a"},
      {"type":"custom_tool_call_output","call_id":"c1","output":"1"},
      {"type":"local_shell_call","id":"l","call_id":"c2","status":"completed","action":{"type":"exec","command":["ls"]}},
      {"type":"local_shell_call_output","id":"c2","output":"2"},
      {"type":"function_call","call_id":"c3","namespace":"agents","name":"stop","arguments":"{}"},
      {"type":"function_call_output","call_id":"c3","output":"3"},
      {"type":"shell_call","call_id":"c4","action":{"commands":["ls"]}},
      {"type":"shell_call_output","call_id":"c4","output":[{"stderr":"","stdout":"4"}]},
      {"type":"apply_patch_call","call_id":"c5","status":"completed","operation":{"type":"delete_file","path":"x"}},
      {"type":"apply_patch_call_output","call_id":"c5","status":"completed"},
      {"type":"mcp_call","id":"m","server_label":"s","name":"look","arguments":"{}","output":"6"},
      {"type":"mcp_list_tools","id":"l","server_label":"s","tools":[]},
      {"type":"code_interpreter_call","id":"i","status":"completed","container_id":"c","code":"1","outputs":[]},
      {"role":"user","content":"and"}])")}});
  ASSERT_EQ(inbox().held.size(), 1u) << x->sent;
  EXPECT_EQ(prompt(),
            "user:hi\nassistant:None\ntool:1\nassistant:None\ntool:2\nassistant:None\ntool:3\n"
            "assistant:None\ntool:[{\"stderr\":\"\",\"stdout\":\"4\"}]\nassistant:None\ntool:\nassistant:None\ntool:6\n"
            "user:and\nassistant:");
  EXPECT_EQ(refusal(ask({{"input", {{{"type", "custom_tool_call"}, {"name", "f"}}}}})),
            "400 input: input[0]: a custom_tool_call has a name and a call_id");
}

TEST_F(ResponseTools, NamesThatMeetAreRefused) {
  const Json both = Json::parse(R"([{"type":"namespace","name":"a","tools":[{"type":"function","name":"b"}]},
                                    {"type":"function","name":"a__b"}])");
  EXPECT_EQ(refusal(ask({{"tools", both}})), "400 tools: tools: two of them have the name 'a__b'");
  EXPECT_EQ(refusal(ask({{"tools", {{{"type", "namespace"}, {"name", "a"}}}}})),
            "400 tools: tools: a namespace has a name and a list of tools");
  Json many = Json::array();
  for (int i = 0; i < 200; ++i) many.push_back({{"type", "function"}, {"name", "f" + std::to_string(i)}});
  EXPECT_EQ(refusal(ask({{"tools", {{{"type", "namespace"}, {"name", "a"}, {"tools", many}}}}})),
            "400 tools: tools: at most 128 of them");
}

}  // namespace
}  // namespace weir::openai
