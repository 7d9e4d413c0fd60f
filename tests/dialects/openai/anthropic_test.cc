// Anthropic's Messages API on the same models.
#include "bench.h"

namespace weir::openai {
namespace {

class Messages : public OpenaiBench {
 protected:
  Opened ask(Json body, std::string path = "/v1/messages") {
    body.emplace("model", "m");
    body.emplace("max_tokens", 20);
    body.emplace("messages", Json::parse(R"([{"role":"user","content":"hi"}])"));
    return open("POST", std::move(path), body.dump());
  }
  std::string prompt() { return support::prompt_of(*call()); }
  static std::string refusal(const Opened& x) {
    Json error = json(x)["error"];
    return std::to_string(x->response.status) + " " + error["type"].get<std::string>() + ": " +
           error["message"].get<std::string>();
  }
  // The events, each checked to be named as its data say.
  static std::vector<Json> events(const Opened& x) {
    std::vector<Json> out;
    std::string_view rest = x->sent;
    for (size_t end; (end = rest.find("\n\n")) != rest.npos; rest.remove_prefix(end + 2)) {
      std::string_view event = rest.substr(0, end);
      size_t line = event.find('\n');
      out.push_back(Json::parse(event.substr(line + 7)));
      EXPECT_EQ(event.substr(7, line - 7), out.back()["type"].get<std::string>());
    }
    return out;
  }
};

TEST_F(Messages, AnAnswerIsAMessageOfBlocks) {
  auto x = ask({{"system", "be"}, {"temperature", 0.5}});
  EXPECT_EQ(prompt(), "system:be\nuser:hi\nassistant:");
  EXPECT_EQ(call()->generation->max_tokens, 20u);
  scripted().emit("ab");
  scripted().end();
  turn();
  Json answer = json(x);
  EXPECT_EQ(answer["type"], "message");
  EXPECT_EQ(answer["role"], "assistant");
  EXPECT_EQ(answer["id"].get<std::string>().substr(0, 4), "msg_");
  EXPECT_EQ(answer["content"], Json::parse(R"([{"type":"text","text":"ab"}])"));
  EXPECT_EQ(answer["stop_reason"], "end_turn");
  EXPECT_EQ(answer["stop_sequence"], Json());
  EXPECT_EQ(answer["usage"]["input_tokens"], 28);
}

TEST_F(Messages, TheRequestsIdIsToldAsClientsLookForIt) {
  auto x = open("POST", "/v1/messages", "{}", {{"x-request-id", "mine"}});
  EXPECT_EQ(x->extra_fields().find("request-id"), "mine");
  EXPECT_EQ(chat({})->extra_fields().find("request-id"), "");
}

TEST_F(Messages, AStreamIsTheEventsThatMakeOne) {
  auto x = ask({{"stream", true}, {"stop_sequences", {"c"}}});
  scripted().emit("a");
  turn();
  scripted().emit("bc");
  turn();
  ASSERT_TRUE(x->ended);
  auto all = events(x);
  std::string types, text;
  for (const Json& event : all) {
    if (event["type"] == "content_block_delta")
      text += event["delta"]["text"].get<std::string>();
    else
      types += event["type"].get<std::string>() + " ";
  }
  EXPECT_EQ(types, "message_start content_block_start content_block_stop message_delta message_stop ");
  EXPECT_EQ(text, "ab");
  EXPECT_EQ(all[0]["message"]["usage"]["input_tokens"], 18);
  const Json& end = all[all.size() - 2];
  EXPECT_EQ(end["delta"]["stop_reason"], "stop_sequence");
  EXPECT_EQ(end["delta"]["stop_sequence"], "c");
}

TEST_F(Messages, ASilentStreamBeginsAndPings) {
  auto x = ask({{"stream", true}});
  env.advance(std::chrono::seconds(31));
  EXPECT_EQ(x->response.status, 200);
  std::string types;
  for (const Json& event : events(x)) types += event["type"].get<std::string>() + " ";
  EXPECT_EQ(types, "message_start ping ping ");
  scripted().end();
  turn();
  EXPECT_EQ(events(x).back()["type"], "message_stop");
  EXPECT_EQ(env.armed(), 0u);
}

TEST_F(Messages, ThoughtsTextAndCallsOfToolsAreBlocks) {
  models.add(support::tools_spec("qwen", "{# <tool_call></think> #}"));
  const Json tools = Json::parse(R"([{"name":"f","description":"d","input_schema":{"type":"object"}}])");
  for (bool stream : {false, true}) {
    auto x = ask({{"model", "qwen"}, {"tools", tools}, {"stream", stream}});
    ASSERT_EQ(models["qwen"].held.size(), 1u) << x->sent;
    ScriptedAnswer says{models["qwen"], models["qwen"].held[0]};
    says.emit("<think>hm</think>So <tool_call>{\"name\":\"f\",\"arguments\":{\"a\":[1]}}</tool_call>");
    says.emit("<tool_call>{\"name\":\"f\"}</tool_call>");
    says.end();
    turn();
    ASSERT_TRUE(x->ended);
    Json blocks = Json::array();
    std::string reason;
    int signatures = 0;
    if (!stream) blocks = json(x)["content"], reason = json(x)["stop_reason"];
    for (const Json& event : stream ? events(x) : std::vector<Json>()) {
      const std::string type = event["type"];
      if (type == "message_delta") reason = event["delta"]["stop_reason"];
      if (!event.contains("index")) continue;
      if (type == "content_block_start") {
        EXPECT_EQ(event["index"], blocks.size());
        blocks.push_back(event["content_block"]);
        continue;
      }
      ASSERT_EQ(event["index"], blocks.size() - 1) << "blocks follow each other";
      if (type == "content_block_stop") {
        if (blocks.back().contains("json"))
          blocks.back()["input"] = Json::parse(blocks.back()["json"].get<std::string>());
        blocks.back().erase("json");
        continue;
      }
      const Json& delta = event["delta"];
      if (delta["type"] == "signature_delta") {
        EXPECT_EQ(blocks.back()["type"], "thinking");
        EXPECT_EQ(delta["signature"], "");
        ++signatures;
      }
      for (auto [kind, from, to] :
           {std::array{"text_delta", "text", "text"}, std::array{"thinking_delta", "thinking", "thinking"},
            std::array{"input_json_delta", "partial_json", "json"}})
        if (delta["type"] == kind) blocks.back()[to] = blocks.back().value(to, "") + delta[from].get<std::string>();
    }
    ASSERT_EQ(blocks.size(), 4u) << blocks;
    EXPECT_EQ(blocks[0], Json::parse(R"({"type":"thinking","thinking":"hm","signature":""})"));
    EXPECT_EQ(blocks[1], Json::parse(R"({"type":"text","text":"So"})"));
    EXPECT_EQ(blocks[2]["id"].get<std::string>().substr(0, 6), "toolu_");
    EXPECT_EQ(blocks[2]["input"], Json::parse(R"({"a":[1]})"));
    EXPECT_EQ(blocks[3]["input"], Json::object());
    EXPECT_EQ(reason, "tool_use");
    EXPECT_EQ(signatures, stream ? 1 : 0);
  }
}

TEST_F(Messages, ThoughtsAloneComeWithAnEmptyText) {
  models.add(support::tools_spec("qwen", "{# <tool_call></think> #}"));
  auto x = ask({{"model", "qwen"}, {"stream", true}});
  ScriptedAnswer says{models["qwen"], models["qwen"].held.at(0)};
  says.emit("<think>hm");
  says.end();
  turn();
  std::string types;
  for (const Json& event : events(x))
    if (event.contains("content_block")) types += event["content_block"]["type"].get<std::string>() + " ";
  EXPECT_EQ(types, "thinking text ") << "as in one piece";
}

TEST_F(Messages, AStopSequenceInsideACallIsToldAndTheCallLeftOut) {
  models.add(support::tools_spec("qwen", "{# <tool_call></think> #}"));
  const Json tools = Json::parse(R"([{"name":"f","input_schema":{"type":"object"}}])");
  auto x = ask({{"model", "qwen"}, {"tools", tools}, {"stop_sequences", {"\"b\""}}});
  ASSERT_EQ(models["qwen"].held.size(), 1u) << x->sent;
  ScriptedAnswer{models["qwen"], models["qwen"].held[0]}.emit(
      R"(So <tool_call>{"name":"f","arguments":{"a":1,"b":2}}</tool_call>)");
  turn();
  EXPECT_EQ(json(x)["content"], Json::parse(R"([{"type":"text","text":"So"}])"));
  EXPECT_EQ(json(x)["stop_reason"], "stop_sequence");
  EXPECT_EQ(json(x)["stop_sequence"], "\"b\"");
}

TEST_F(Messages, AChoiceOfToolIsHeldTo) {
  const Json tools = Json::parse(R"([{"name":"f","input_schema":{"type":"object"}}])");
  auto x = ask({{"tools", tools}, {"tool_choice", {{"type", "tool"}, {"name", "f"}}}});
  ASSERT_EQ(inbox().held.size(), 1u) << x->sent;
  EXPECT_TRUE(call()->generation->constraint);
  EXPECT_EQ(refusal(ask({{"tools", tools}, {"tool_choice", {{"type", "tool"}, {"name", "g"}}}})),
            "400 invalid_request_error: tool_choice: no tool has the name 'g'");
}

TEST_F(Messages, BlocksBecomeWhatTemplatesTake) {
  auto x = ask({{"messages", Json::parse(R"([
      {"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]},
      {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},
                                     {"type":"tool_use","id":"t1","name":"f","input":{"a":1}}]},
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"2"},{"type":"text","text":"so"}]}])")}});
  ASSERT_EQ(inbox().held.size(), 1u) << x->sent;
  EXPECT_EQ(prompt(), "user:hi\nassistant:None\ntool:2\nuser:so\nassistant:");
}

TEST_F(Messages, ALastMessageOfTheAssistantIsContinued) {
  auto x = ask({{"messages", Json::parse(R"([{"role":"user","content":"hi"},{"role":"assistant","content":"yes"}])")}});
  ASSERT_EQ(inbox().held.size(), 1u) << x->sent;
  EXPECT_EQ(prompt(), "user:hi\nassistant:yes");
}

TEST_F(Messages, AnEmptyLastMessageOfTheAssistantIsLeftOut) {
  for (const char* content : {R"("")", "[]", R"([{"type":"text","text":""}])"}) {
    Json messages = Json::parse(R"([{"role":"user","content":"hi"},{"role":"assistant"}])");
    messages[1]["content"] = Json::parse(content);
    auto x = ask({{"messages", messages}});
    ASSERT_EQ(inbox().held.size(), 1u) << x->sent;
    EXPECT_EQ(prompt(), "user:hi\nassistant:");
    models.finish_all();
    turn();
  }
}

// It has the members that agents send, and those of the newest versions of the package.
TEST_F(Messages, ARequestOfAnAgentIsTaken) {
  models.add(support::tools_spec("qwen", "{# <tool_call></think> #}"));
  auto x = ask(Json::parse(R"({"model":"qwen","max_tokens":32000,"stream":true,
      "system":[{"type":"text","text":"You edit files."},
                {"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}],
      "messages":[{"role":"user","content":[{"type":"text","text":"<note>a</note>"},
                                            {"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]},
                  {"role":"system","content":"There are two agents."}],
      "tools":[{"name":"Read","description":"d","input_schema":{"type":"object"},"eager_input_streaming":true}],
      "metadata":{"user_id":"u"},"thinking":{"type":"adaptive"},"output_config":{"effort":"high"},
      "context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]},
      "container":null,"diagnostics":{"previous_message_id":"m"},"speed":"fast","mcp_servers":[],"betas":["b"]})"));
  ASSERT_EQ(models["qwen"].held.size(), 1u) << x->sent;
  EXPECT_EQ(
      support::prompt_of(*models["qwen"].held[0]),
      "tools=1\nsystem:You edit files.\nBe brief.\nuser:<note>a</note>hi\nsystem:There are two agents.\nassistant:");
  EXPECT_EQ(x->extra_fields().find("weir-ignored"), "");
}

TEST_F(Messages, AMemberThatNobodyKnowsIsPassedOverAndNamed) {
  auto x = ask({{"warmth", 3}, {"memory_store", {{"a", 1}}}, {"bad name\n", 1}, {"unset", nullptr}});
  ASSERT_EQ(inbox().held.size(), 1u) << x->sent;
  EXPECT_EQ(x->extra_fields().find("weir-ignored"), "memory_store, warmth");
}

TEST_F(Messages, MembersInsideOthersAreReadOrRefused) {
  EXPECT_EQ(refusal(ask({{"output_config", "x"}})), "400 invalid_request_error: output_config: expected an object");
  EXPECT_EQ(refusal(ask({{"output_config", {{"fromat", {{"type", "json_schema"}, {"schema", true}}}}}})),
            "400 invalid_request_error: output_config.fromat: no such parameter");
  for (Json wrong : {Json("x"), Json{{"type", 5}}, Json{{"type", "enable"}}, Json{{"budget_tokens", 1024}}})
    EXPECT_EQ(refusal(ask({{"thinking", wrong}})),
              "400 invalid_request_error: thinking: its type is enabled, adaptive, disabled or between_tools");
  auto x = ask({{"output_config", {{"task_budget", {{"type", "tokens"}, {"total", 9}}}}}});
  ASSERT_EQ(inbox().held.size(), 1u) << x->sent;
  EXPECT_EQ(x->extra_fields().find("weir-ignored"), "output_config.task_budget");
}

TEST_F(Messages, KindsOfThinkingAreOnOrOffOrOfANewerVersion) {
  models.add(support::tools_spec("told", "{{ enable_thinking }}/"));
  for (auto [type, told, ignored] :
       {std::array{"enabled", "True", ""}, std::array{"adaptive", "True", ""}, std::array{"disabled", "False", ""},
        std::array{"between_tools", "False", ""}, std::array{"deep", "", "thinking.type"}}) {
    auto x = ask({{"model", "told"}, {"thinking", {{"type", type}}}});
    ASSERT_EQ(models["told"].held.size(), 1u) << x->sent;
    const std::string prompt = support::prompt_of(*models["told"].held[0]);
    EXPECT_EQ(prompt.substr(0, prompt.find('/')), told) << type;
    EXPECT_EQ(x->extra_fields().find("weir-ignored"), ignored) << type;
    models.finish_all();
    turn();
  }
}

TEST_F(Messages, InstructionsAmongTheMessagesComeFirstWhereTheTemplateWantsIt) {
  const Json talk = Json::parse(R"([{"role":"user","content":"hi"},{"role":"system","content":"two"},
                                    {"role":"assistant","content":"yes"},{"role":"user","content":"so"}])");
  const std::string fails =
      "{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ raise_exception('not here') }}"
      "{% endif %}{% endfor %}";
  models.add(support::tools_spec("fails", fails));
  for (bool first : {false, true}) {
    Json body = {{"model", "fails"}, {"messages", talk}};
    if (first) body["system"] = "one";
    auto x = ask(body);
    ASSERT_EQ(models["fails"].held.size(), 1u) << x->sent;
    EXPECT_EQ(support::prompt_of(*models["fails"].held[0]), std::string("system:") + (first ? "one\n\ntwo" : "two") +
                                                                "\nuser:hi\nassistant:yes\nuser:so\nassistant:");
    models.finish_all();
    turn();
  }
}

TEST_F(Messages, BlocksOfTextAreText) {
  auto x = ask({{"messages", Json::parse(R"([{"role":"user","content":[
      {"type":"document","title":"T","context":"C","source":{"type":"text","media_type":"text/plain","data":"one"}},
      {"type":"document","source":{"data":"two"}},
      {"type":"document","source":{"type":"content","content":[{"type":"text","text":"three"}]}},
      {"type":"search_result","title":"S","source":"http://s","content":[{"type":"text","text":"four"}]}]},
    {"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{}}]},
    {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1",
                               "content":[{"type":"tool_reference","tool_name":"Read"}]}]}])")}});
  ASSERT_EQ(inbox().held.size(), 1u) << x->sent;
  EXPECT_EQ(prompt(), "user:T\nC\nonetwothreeS\nhttp://s\nfour\nassistant:None\ntool:Read\nassistant:");
  x = ask({{"messages", Json::parse(R"([{"role":"user","content":[
      {"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBE"}}]}])")}});
  EXPECT_EQ(refusal(x).substr(0, 4), "400 ");
}

TEST_F(Messages, TheOlderPlaceOfASchemaIsRead) {
  ask({{"output_format", {{"type", "json_schema"}, {"schema", {{"type", "object"}}}}}});
  ASSERT_EQ(inbox().held.size(), 1u);
  EXPECT_TRUE(call()->generation->constraint);
}

TEST_F(Messages, MoreTokensThanTheContextHasAreCutToIt) {
  auto x = ask({{"max_tokens", 32000}});
  ASSERT_EQ(inbox().held.size(), 1u) << x->sent;
  EXPECT_EQ(call()->generation->max_tokens, 200u - 18);
  scripted().emit("ab");
  scripted().done(msg::Finish::kLength);
  turn();
  EXPECT_EQ(json(x)["stop_reason"], "model_context_window_exceeded");
  auto y = ask({{"max_tokens", 2}});
  scripted().emit("ab");
  scripted().done(msg::Finish::kLength);
  turn();
  EXPECT_EQ(json(y)["stop_reason"], "max_tokens");
}

TEST_F(Messages, AConversationThatIsTooLongIsRefusedInTheWordsThatAgentsKnow) {
  for (size_t bytes : {300, 1 << 20})
    EXPECT_EQ(refusal(ask({{"messages", {{{"role", "user"}, {"content", std::string(bytes, 'x')}}}}})).substr(0, 46),
              "400 invalid_request_error: prompt is too long:");
}

TEST_F(Messages, TokensAreCounted) {
  auto x = ask({}, "/v1/messages/count_tokens");
  EXPECT_EQ(json(x)["input_tokens"], 18);
}

TEST_F(Messages, WhatItRefusesItNames) {
  EXPECT_EQ(refusal(ask({{"max_token", 1}})),
            "400 invalid_request_error: max_token: no such parameter; did you mean max_tokens?");
  EXPECT_NE(refusal(ask({{"temprature", 1}})).find("; did you mean temperature?"), std::string::npos);
  EXPECT_EQ(refusal(ask({{"mcp_servers", {{{"type", "url"}, {"name", "n"}, {"url", "http://x"}}}}})),
            "400 invalid_request_error: mcp_servers: this server calls no others");
  EXPECT_EQ(refusal(ask({{"container", {{"skills", {{{"skill_id", "s"}}}}}}})),
            "400 invalid_request_error: container: no skills are offered here");
  EXPECT_EQ(refusal(ask({{"output_format", {{"type", "xml"}}}})),
            "400 invalid_request_error: output_format: its type is json_schema");
  EXPECT_EQ(refusal(ask({{"stop_sequences", {""}}})).substr(0, 43), "400 invalid_request_error: stop_sequences: ");
  EXPECT_EQ(refusal(ask({{"max_tokens", nullptr}})), "400 invalid_request_error: max_tokens: it is missing");
  EXPECT_EQ(refusal(ask({{"model", "q"}})).substr(0, 20), "404 not_found_error:");
  EXPECT_EQ(refusal(ask({{"tools", {{{"type", "web_search_20250305"}, {"name", "s"}}}}})),
            "400 invalid_request_error: tools[0]: 'web_search_20250305' is a tool of Anthropic's servers");
  EXPECT_EQ(refusal(ask({{"messages", {{{"role", "tool"}, {"content", "x"}}}}})),
            "400 invalid_request_error: messages[0]: a role is user, assistant or system");
  EXPECT_EQ(refusal(ask({{"messages", {{{"role", "system"}, {"content", {{{"type", "image"}}}}}}}})),
            "400 invalid_request_error: messages[0]: the content of the role system is a text or a list of texts");
  EXPECT_EQ(refusal(open("POST", "/v1/messages", "{")).substr(0, 4), "400 ");
}

TEST_F(Messages, ClientsThatAskForAThreadAreToldToGoOnWithoutOne) {
  for (const char* path : {"/v1/messages", "/v1/messages/count_tokens"}) {
    auto x = ask({{"thread", {{"type", "create"}}}}, path);
    EXPECT_EQ(refusal(x), "400 invalid_request_error: thread: no messages are stored here");
    EXPECT_EQ(json(x)["error"]["details"],
              Json::parse(R"({"error_code":"thread_unsupported_request","unsupported":["thread"]})"));
  }
  EXPECT_FALSE(json(ask({{"temprature", 1}}))["error"].contains("details"));
}

TEST_F(Messages, WhatIsMissingIsNamedWithItsPlace) {
  const auto said = [&](const char* messages) {
    return refusal(ask({{"messages", Json::parse(messages)}})).substr(27);
  };
  EXPECT_EQ(said(R"([{"role":"user","content":"hi"},{"role":"user"}])"), "messages[1]: content: it is missing");
  EXPECT_EQ(said(R"([{"role":"user","content":[{"type":"text"}]}])"), "messages[0]: text: it is missing");
  EXPECT_EQ(said(R"([{"role":"user","content":[{"type":"tool_result"}]}])"), "messages[0]: tool_use_id: it is missing");
  EXPECT_EQ(said(R"([{"role":"user","content":[{"type":"text","text":5}]}])"),
            "messages[0]: a member has another type than it should: its type must be string, but is number");
  EXPECT_EQ(refusal(ask({{"tools", {{{"input_schema", {{"type", "object"}}}}}}})).substr(27),
            "tools[0]: name: it is missing");
  EXPECT_EQ(refusal(ask({{"output_config", {{"format", {{"type", "json_schema"}}}}}})).substr(27),
            "schema: it is missing");
}

TEST_F(Messages, AToolIsRefusedInTheNamesOfItsMembers) {
  const auto said = [&](Json tool) {
    return refusal(ask({{"tools", {{{"name", "f"}, {"input_schema", Json::object()}}, std::move(tool)}}})).substr(27);
  };
  EXPECT_EQ(said({{"name", "a b"}}).substr(0, 24), "tools[1].name: expected ");
  EXPECT_EQ(said({{"name", "g"}, {"input_schema", 5}}), "tools[1].input_schema: expected a JSON schema, an object");
}

TEST_F(Messages, AFailureInTheMiddleIsAnEvent) {
  auto x = ask({{"stream", true}});
  scripted().emit("a");
  turn();
  scripted().fail(base::Code::kUnavailable, "it is gone");
  turn();
  ASSERT_TRUE(x->ended);
  const Json last = events(x).back();
  EXPECT_EQ(last["type"], "error");
  EXPECT_EQ(last["error"], Json::parse(R"({"type":"overloaded_error","message":"it is gone"})"));
  EXPECT_EQ(last["request_id"], x->record().request_id);
}

}  // namespace
}  // namespace weir::openai
