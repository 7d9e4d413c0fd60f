// Calls of tools and thoughts: what a request asks for, and how the model's own format becomes OpenAI's.
#include "dialects/openai/tools.h"

#include "bench.h"

namespace weir::openai {
namespace {

class Tools : public OpenaiBench {
 protected:
  static Json tool(std::string name, Json parameters = {{"type", "object"}}) {
    return {{"type", "function"}, {"function", {{"name", std::move(name)}, {"parameters", std::move(parameters)}}}};
  }
  Tools() {
    models.add(support::tools_spec("hermes", "{# <tool_call> #}"));
    models.add(support::tools_spec("qwen", "{# <tool_call></think> #}", {"<tool_call>", "</tool_call>"}));
    models.add(support::tools_spec("mistral", "{# [TOOL_CALLS] #}", {"[TOOL_CALLS]"}));
    models.add(support::tools_spec("begun", "{# </think> #}"));
  }
  Opened ask(std::string model, Json body, const std::string& answer = {}, bool ends = true) {
    body["model"] = model;
    body.emplace("tools", Json::array({tool("f"), tool("g")}));
    auto x = chat(std::move(body));
    if (models[model].held.empty()) return x;
    ScriptedAnswer says{models[model], models[model].held.back()};
    says.emit(answer);
    if (ends)
      says.end();
    else
      says.done();
    turn();
    return x;
  }
  static Json message_of(const Opened& x) { return json(x)["choices"][0]["message"]; }
  static std::string reason(const Opened& x) { return json(x)["choices"][0]["finish_reason"]; }
  static std::string calls(const Json& message) {
    std::string out;
    for (const Json& call : message.value("tool_calls", Json::array())) {
      EXPECT_EQ(call["type"], "function");
      out += call["function"]["name"].get<std::string>() + call["function"]["arguments"].get<std::string>() + " ";
    }
    return out;
  }
  static constexpr const char* kCall = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>";
};

TEST_F(Tools, CallsAreReadInTheModelsOwnFormat) {
  auto x = ask("hermes", {}, std::string("I ask. ") + kCall + "\n<tool_call>{\"name\": \"g\"}</tool_call>");
  const Json message = message_of(x);
  EXPECT_EQ(message["content"], "I ask.");
  EXPECT_EQ(calls(message), "f{\"a\": 1} g{} ");
  EXPECT_EQ(message["tool_calls"][0]["id"].get<std::string>().substr(0, 5), "call_");
  EXPECT_NE(message["tool_calls"][0]["id"], message["tool_calls"][1]["id"]);
  EXPECT_FALSE(message["tool_calls"][0].contains("index"));
  EXPECT_EQ(reason(x), "tool_calls");
}

TEST_F(Tools, CallsAloneHaveNoContent) {
  auto x = ask("hermes", {}, kCall);
  EXPECT_EQ(message_of(x).value("content", Json("absent")), Json());
}

TEST_F(Tools, AnAnswerWithoutCallsIsText) {
  auto x = ask("hermes", {}, "Hello {\"name\": \"f\"}. ");
  EXPECT_EQ(message_of(x)["content"], "Hello {\"name\": \"f\"}. ");
  EXPECT_FALSE(message_of(x).contains("tool_calls"));
  EXPECT_EQ(reason(x), "stop");
  auto y = ask("hermes", {{"tool_choice", "none"}}, kCall);
  EXPECT_EQ(message_of(y)["content"], kCall) << "nobody asked for calls";
}

TEST_F(Tools, ACallThatIsCutSaysLength) {
  auto x = ask("hermes", {}, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": [1", false);
  EXPECT_EQ(calls(message_of(x)), "f{\"a\": [1 ");
  EXPECT_EQ(reason(x), "length");
}

TEST_F(Tools, ACallThatAStopStringCutsIsNone) {
  const std::string first = kCall, second = "<tool_call>{\"name\": \"g\", \"arguments\": {\"a\": 1, \"b\": 2}}";
  for (bool stream : {false, true}) {
    auto x = chat({{"model", "hermes"}, {"tools", {tool("f"), tool("g")}}, {"stop", "\"b\""}, {"stream", stream}});
    ScriptedAnswer says{models["hermes"], models["hermes"].held.at(0)};
    says.emit(first + second);
    turn();
    ASSERT_TRUE(x->ended);
    if (stream) {
      const Json last = events(x).end()[-2];
      EXPECT_EQ(last["choices"][0]["finish_reason"], "stop") << last;
      EXPECT_EQ(last["choices"][0]["stop_reason"], "\"b\"");
    } else {
      EXPECT_EQ(calls(message_of(x)), "f{\"a\": 1} ");
      EXPECT_EQ(reason(x), "stop");
    }
    models.finish_all();
    turn();
  }
  auto alone = ask("hermes", {}, "Hm <tool_call>{\"name\": \"f\", \"arguments\": {\"a\": [1");
  EXPECT_FALSE(message_of(alone).contains("tool_calls")) << "the model ended it";
  EXPECT_EQ(message_of(alone)["content"], "Hm");
  EXPECT_EQ(reason(alone), "stop");
  auto whole = ask("hermes", {{"stop", "}"}}, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}");
  EXPECT_EQ(reason(whole), "stop") << "the stop string is a part of the arguments";
}

TEST_F(Tools, ACallIsWholeWithItsArguments) {
  auto x = ask("hermes", {{"stop", "</tool_call>"}}, kCall);
  EXPECT_EQ(calls(message_of(x)), "f{\"a\": 1} ");
  EXPECT_EQ(reason(x), "tool_calls");
}

TEST_F(Tools, AStreamHasNamesOnceAndArgumentsInPieces) {
  auto x = ask("hermes", {{"stream", true}}, std::string("Hm ") + kCall + kCall);
  std::vector<Json> begun;
  std::string arguments[2], content, finish;
  for (const Json& event : events(x)) {
    if (!event.is_object()) continue;
    const Json& choice = event["choices"][0];
    if (choice["finish_reason"].is_string()) finish = choice["finish_reason"];
    content += choice["delta"].value("content", "");
    for (const Json& call : choice["delta"].value("tool_calls", Json::array())) {
      if (call.contains("id")) {
        EXPECT_EQ(call["type"], "function");
        EXPECT_EQ(call["index"], begun.size());
        begun.push_back(call);
        EXPECT_EQ(call["function"]["name"], "f");
      } else {
        EXPECT_FALSE(call["function"].contains("name"));
      }
      arguments[call["index"].get<int>()] += call["function"]["arguments"].get<std::string>();
    }
  }
  EXPECT_EQ(begun.size(), 2u);
  EXPECT_EQ(content, "Hm");
  EXPECT_EQ(arguments[0], "{\"a\": 1}");
  EXPECT_EQ(arguments[1], "{\"a\": 1}");
  EXPECT_EQ(finish, "tool_calls");
}

TEST_F(Tools, OneCallEndsTheAnswerWhereTheyAreNotParallel) {
  auto x = chat({{"model", "hermes"}, {"tools", {tool("f")}}, {"parallel_tool_calls", false}});
  msg::Call* call = models["hermes"].held.at(0);
  ScriptedAnswer says{models["hermes"], call};
  says.emit(std::string(kCall) + "\n" + kCall);
  turn();
  ASSERT_TRUE(x->ended);
  EXPECT_TRUE(call->cancelled.load());
  EXPECT_EQ(calls(message_of(x)), "f{\"a\": 1} ");
  EXPECT_EQ(reason(x), "tool_calls");
}

TEST_F(Tools, MarkersThatAreSpecialTokensAreReadAndOthersLeftOut) {
  auto x = chat({{"model", "mistral"}, {"tools", {tool("f")}}});
  ScriptedAnswer says{models["mistral"], models["mistral"].held.at(0)};
  says.token(257);
  says.token(260);
  says.emit("[{\"name\": \"f\", \"arguments\": {}}]");
  says.end();
  turn();
  EXPECT_EQ(calls(message_of(x)), "f{} ");
  EXPECT_EQ(message_of(x)["tool_calls"][0]["id"].get<std::string>().size(), 9u) << "as Mistral's templates have it";
  EXPECT_EQ(message_of(x)["content"], Json());
}

TEST_F(Tools, AChoiceIsCarriedOutByAGrammar) {
  Json parameters = Json::parse(R"({"type":"object","properties":{"a":{"enum":[1,2]}},"required":["a"]})");
  auto x = chat({{"model", "hermes"},
                 {"tools", {tool("f"), tool("g", parameters)}},
                 {"tool_choice", Json::parse(R"({"type":"function","function":{"name":"g"}})")}});
  ASSERT_EQ(models["hermes"].held.size(), 1u) << x->sent;
  auto& constraint = models["hermes"].held[0]->generation->constraint;
  ASSERT_TRUE(constraint);
  for (char c : std::string_view("<tool_call>\n{\"name\": \"g\", \"arguments\": {\"a\": 1}}\n</tool_call>"))
    ASSERT_TRUE(constraint->accept(uint8_t(c))) << c;
  EXPECT_TRUE(constraint->complete()) << "a tool that is named is called once";
}

TEST_F(Tools, OnlyAllowedToolsAreOfferedToTheModel) {
  auto allowed = [](std::string mode, std::string name) {
    Json one{{"type", "function"}, {"function", {{"name", std::move(name)}}}};
    return Json{{"type", "allowed_tools"}, {"allowed_tools", {{"mode", std::move(mode)}, {"tools", {std::move(one)}}}}};
  };
  auto x = chat({{"model", "hermes"}, {"tools", {tool("f"), tool("g")}}, {"tool_choice", allowed("required", "g")}});
  ASSERT_EQ(models["hermes"].held.size(), 1u) << x->sent;
  auto& constraint = models["hermes"].held[0]->generation->constraint;
  ASSERT_TRUE(constraint);
  for (char c : std::string_view("<tool_call>\n{\"name\": \"")) ASSERT_TRUE(constraint->accept(uint8_t(c))) << c;
  EXPECT_FALSE(constraint->accept(uint8_t('f'))) << "it is not allowed";
  auto free = ask("qwen", {{"tool_choice", allowed("auto", "f")}}, kCall);
  EXPECT_EQ(calls(message_of(free)), "f{\"a\": 1} ");
  auto refused = [&](Json choice) {
    return json(
        chat({{"model", "hermes"}, {"tools", {tool("f")}}, {"tool_choice", std::move(choice)}}))["error"]["message"];
  };
  EXPECT_EQ(refused(allowed("auto", "h")), "tool_choice: no tool has the name 'h'");
  EXPECT_EQ(refused(allowed("none", "f")), "tool_choice: allowed_tools.mode: takes \"auto\" or \"required\"");
  EXPECT_EQ(refused({{"type", "allowed_tools"}}).get<std::string>().substr(0, 24), "tool_choice: its type is");
  Json empty = allowed("auto", "f");
  empty["allowed_tools"]["tools"] = Json::array();
  EXPECT_EQ(refused(empty), "tool_choice: allowed_tools.tools: expected a list of tools");
  empty["allowed_tools"]["tools"] = {{{"type", "function"}}};
  EXPECT_EQ(refused(empty).get<std::string>().substr(0, 39), "tool_choice: allowed_tools.tools: takes");
}

TEST_F(Tools, RequiredCallsWorkWithAModelThatKnowsNone) {
  auto x = chat({{"tools", {tool("f")}}, {"tool_choice", "required"}});
  ASSERT_EQ(inbox().held.size(), 1u) << x->sent;
  const std::string says = "{\"name\": \"f\", \"parameters\": {}}";
  for (char c : says) ASSERT_TRUE(call()->generation->constraint->accept(uint8_t(c))) << c;
  scripted().emit(says + says);
  scripted().end();
  turn();
  EXPECT_EQ(calls(message_of(x)), "f{} f{} ");
}

TEST_F(Tools, WhatCannotBeReadIsRefused) {
  auto refused = [&](Json body) {
    auto x = chat(std::move(body));
    EXPECT_EQ(x->response.status, 400) << x->sent;
    return json(x)["error"]["param"].get<std::string>() + " | " + message(x).substr(0, 60);
  };
  EXPECT_EQ(refused({{"tools", {tool("f")}}}), "tools | tools: how this model writes calls of tools is not known; us");
  EXPECT_EQ(refused({{"tool_choice", "required"}}), "tool_choice | tool_choice: there are no tools to call");
  EXPECT_EQ(refused({{"tools", {tool("f")}}, {"tool_choice", {{"type", "function"}, {"function", {{"name", "q"}}}}}}),
            "tool_choice | tool_choice: no tool has the name 'q'");
  EXPECT_EQ(refused({{"tool_choice", "any"}}).substr(0, 11), "tool_choice");
  EXPECT_EQ(refused({{"tools", {{{"type", "web_search"}}}}}), "tools | tools[0].type: only \"function\" is offered");
  EXPECT_EQ(refused({{"tools", {tool("a\"b")}}}).substr(0, 36), "tools | tools[0].function.name: expe");
  EXPECT_EQ(refused({{"tools", {tool("f", 3)}}}).substr(0, 39), "tools | tools[0].function.parameters: e");
  EXPECT_EQ(refused({{"tools", {tool("f", {{"type", "string"}})}}}).substr(0, 52),
            "tools | tools[0].function.parameters: arguments are ");
  EXPECT_EQ(refused({{"tools", Json(std::vector<Json>(129, tool("f")))}}), "tools | tools: at most 128 of them");
  Json strict = tool("f", {{"not", Json::object()}});
  strict["function"]["strict"] = true;
  EXPECT_EQ(refused({{"tools", {strict}}, {"tool_choice", "required"}}).substr(0, 42),
            "tools | tools: the parameters of 'f': the ");
  EXPECT_EQ(refused({{"model", "hermes"},
                     {"tools", {tool("f")}},
                     {"tool_choice", "required"},
                     {"response_format", {{"type", "json_object"}}}})
                .substr(0, 35),
            "response_format | response_format: ");
  EXPECT_EQ(refused({{"model", "hermes"}, {"tools", {tool("f")}}, {"guided_choice", {"a"}}}).substr(0, 16),
            "guided_choice | ");
  EXPECT_EQ(refused({{"tools", {tool("f", {{"description", std::string(300'000, 'x')}})}}, {"tool_choice", "required"}})
                .substr(0, 30),
            "tools | tools: at most 262144 ");
}

TEST_F(Tools, WithAFormTheAnswerIsACallOrHasTheForm) {
  const Json form = Json::parse(R"({"type":"json_schema","json_schema":{"name":"z","schema":
      {"type":"object","properties":{"z":{"enum":[1,2]}},"required":["z"]}}})");
  for (const std::string text : {"{\"z\": 1}", "<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>"}) {
    auto x = chat({{"model", "hermes"}, {"tools", {tool("f"), tool("g")}}, {"response_format", form}});
    ASSERT_EQ(models["hermes"].held.size(), 1u) << x->sent;
    auto& constraint = models["hermes"].held[0]->generation->constraint;
    ASSERT_TRUE(constraint) << "the answer is held to both";
    for (char c : text) ASSERT_TRUE(constraint->accept(uint8_t(c))) << text << " at " << c;
    x.reset();
    models.finish_all();
    turn();
  }
  auto call = ask("hermes", {{"tools", {tool("f")}}, {"response_format", form}}, kCall);
  EXPECT_EQ(calls(message_of(call)), "f{\"a\": 1} ");
  auto said = ask("hermes", {{"tools", {tool("f")}}, {"response_format", form}}, "{\"z\": 1}");
  EXPECT_EQ(message_of(said)["content"], "{\"z\": 1}");
  EXPECT_FALSE(message_of(said).contains("tool_calls"));
  auto any = ask("hermes", {{"tools", {tool("f")}}, {"response_format", {{"type", "json_object"}}}}, "{}");
  EXPECT_EQ(message_of(any)["content"], "{}");
}

TEST_F(Tools, ThoughtsAreNotContent) {
  const std::string says = std::string("<think>\nhm\n</think>\n\n") + "So " + kCall;
  auto x = ask("qwen", {}, says);
  EXPECT_EQ(message_of(x)["reasoning_content"], "hm");
  EXPECT_EQ(message_of(x)["reasoning"], "hm") << "as vLLM's clients call it";
  EXPECT_EQ(message_of(x)["content"], "So");
  EXPECT_EQ(calls(message_of(x)), "f{\"a\": 1} ");
  auto hidden = ask("qwen", {{"include_reasoning", false}}, says);
  EXPECT_FALSE(message_of(hidden).contains("reasoning_content"));
  auto inside = ask("qwen", {{"separate_reasoning", false}, {"tools", Json::array()}}, "<think>hm</think>so");
  EXPECT_EQ(message_of(inside)["content"], "<think>hm</think>so");
  auto stream = ask("qwen", {{"stream", true}}, says);
  for (const char* name : {"reasoning", "reasoning_content"}) {
    std::string thought;
    for (const Json& event : events(stream))
      if (event.is_object()) thought += event["choices"][0]["delta"].value(name, "");
    EXPECT_EQ(thought, "hm");
  }
}

TEST_F(Tools, ThoughtsComeBackUnderEitherName) {
  models.add(support::tools_spec("seen", "{% for m in messages %}{{ m.reasoning_content }}{% endfor %}"));
  for (const char* name : {"reasoning", "reasoning_content"}) {
    Json turn_of_assistant{{"role", "assistant"}, {"content", "yes"}, {name, "hm"}};
    auto x = chat({{"model", "seen"}, {"messages", {{{"role", "user"}, {"content", "hi"}}, turn_of_assistant}}});
    ASSERT_EQ(models["seen"].held.size(), 1u) << x->sent;
    EXPECT_EQ(support::prompt_of(*models["seen"].held[0]).substr(0, 2), "hm");
    models.finish_all();
    turn();
  }
}

TEST_F(Tools, ThoughtsThatThePromptBeginsAreThoughts) {
  auto x =
      chat({{"model", "begun"},
            {"messages", Json::parse(R"([{"role":"user","content":"hi"},{"role":"assistant","content":"<think>"}])")},
            {"add_generation_prompt", false},
            {"continue_final_message", true}});
  ScriptedAnswer says{models["begun"], models["begun"].held.at(0)};
  says.emit("hm</think>\nyes");
  says.end();
  turn();
  EXPECT_EQ(message_of(x)["reasoning_content"], "hm");
  EXPECT_EQ(message_of(x)["content"], "yes");
}

TEST_F(Tools, AFormComesBehindTheThoughts) {
  auto x = chat({{"model", "qwen"}, {"response_format", {{"type", "json_object"}}}});
  ASSERT_EQ(models["qwen"].held.size(), 1u) << x->sent;
  auto& constraint = models["qwen"].held[0]->generation->constraint;
  for (char c : std::string_view("<think>hm</think>{}")) ASSERT_TRUE(constraint->accept(uint8_t(c))) << c;
}

TEST_F(Tools, EveryFormComesBehindTheThoughtsThatThePromptBegins) {
  const Json messages = Json::parse(R"([{"role":"user","content":"hi"},{"role":"assistant","content":"<think>"}])");
  const Json forms[] = {{{"guided_choice", {"yes", "no"}}},
                        {{"structured_outputs", {{"choice", {"yes", "no"}}}}},
                        {{"guided_regex", "(yes|no)"}},
                        {{"guided_grammar", "root ::= \"yes\" | \"no\""}}};
  for (Json body : forms) {
    body.update({{"model", "begun"}, {"messages", messages}});
    body.update({{"add_generation_prompt", false}, {"continue_final_message", true}});
    auto x = chat(body);
    ASSERT_EQ(models["begun"].held.size(), 1u) << x->sent;
    auto& constraint = models["begun"].held[0]->generation->constraint;
    for (char c : std::string_view("hm</think>\nno")) ASSERT_TRUE(constraint->accept(uint8_t(c))) << body << c;
    EXPECT_TRUE(constraint->complete()) << body;
    models.finish_all();
    turn();
  }
  auto x = chat({{"model", "qwen"}, {"guided_regex", "<think>a</think>b"}});
  auto& constraint = models["qwen"].held.at(0)->generation->constraint;
  for (char c : std::string_view("<think>a</think>b")) ASSERT_TRUE(constraint->accept(uint8_t(c))) << c;
  EXPECT_TRUE(constraint->complete()) << "a form that has the thoughts is of the whole text";
}

TEST_F(Tools, TemplatesAreToldWhetherToThink) {
  models.add(support::tools_spec("told", "{{ enable_thinking }}/{{ reasoning_effort }} {# </think> #}"));
  auto begin = [&](Json body) {
    body["model"] = "told";
    auto x = chat(std::move(body));
    const std::string prompt = support::prompt_of(*models["told"].held.back());
    return prompt.substr(0, prompt.find(' '));
  };
  EXPECT_EQ(begin({{"enable_thinking", false}}), "False/");
  EXPECT_EQ(begin({{"reasoning_effort", "low"}}), "/low");
  EXPECT_EQ(begin({{"reasoning_effort", "none"}}), "False/none");
  EXPECT_EQ(begin({{"reasoning_effort", "none"}, {"chat_template_kwargs", {{"enable_thinking", true}}}}), "True/none");
}

TEST_F(Tools, ResultsReachATemplateThatFailsOnThem) {
  models.add(support::tools_spec("strict",
                                 "{% for m in messages %}{% if m.role not in ['user', 'assistant'] %}"
                                 "{{ raise_exception('no ' + m.role) }}{% endif %}{% endfor %}"));
  auto x = chat({{"model", "strict"}, {"messages", Json::parse(R"([{"role":"user","content":"hi"},
      {"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},
      {"role":"tool","tool_call_id":"1","content":"7"},{"role":"user","content":"so?"}])")}});
  ASSERT_EQ(models["strict"].held.size(), 1u) << x->sent;
  const std::string prompt = support::prompt_of(*models["strict"].held[0]);
  EXPECT_NE(prompt.find("assistant:{\"arguments\":\"{}\""), prompt.npos) << prompt;
  EXPECT_NE(prompt.find("user:7\nso?\nassistant:"), prompt.npos) << prompt;
}

TEST_F(Tools, ManyCallsAreReadInLinearTime) {
  std::string many;
  for (int i = 0; i < 400; ++i) many += "<tool_call>{\"name\":\"f\"}";
  auto x = ask("hermes", {}, many);
  EXPECT_EQ(message_of(x)["tool_calls"].size(), 400u);
}

}  // namespace
}  // namespace weir::openai
