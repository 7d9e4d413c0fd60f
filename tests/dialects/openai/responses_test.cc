// The Responses API on the same models.
#include <cstring>

#include "responses_bench.h"

namespace weir::openai {
namespace {

TEST_F(Responses, AnAnswerIsAResponseOfItems) {
  auto x = ask({{"instructions", "be"}, {"max_output_tokens", 20}, {"temperature", 0.5}, {"metadata", {{"a", "b"}}}});
  EXPECT_EQ(prompt(), "system:be\nuser:hi\nassistant:");
  EXPECT_EQ(call()->generation->max_tokens, 20u);
  auto model = scripted();
  model.emit("ab");
  model.end();
  turn();
  Json answer = json(x);
  EXPECT_EQ(answer["object"], "response");
  EXPECT_EQ(answer["status"], "completed");
  EXPECT_EQ(answer["error"], Json());
  EXPECT_EQ(answer["metadata"]["a"], "b");
  EXPECT_EQ(answer["instructions"], "be");
  EXPECT_EQ(answer["store"], true);
  ASSERT_EQ(answer["output"].size(), 1u);
  EXPECT_EQ(answer["output"][0]["type"], "message");
  EXPECT_EQ(answer["output"][0]["content"],
            Json::parse(R"([{"type":"output_text","text":"ab","annotations":[],"logprobs":[]}])"));
  EXPECT_EQ(answer["usage"]["input_tokens"], 28);
  EXPECT_EQ(answer["usage"]["output_tokens"], 3);
}

TEST_F(Responses, ThoughtsTextAndCallsAreItems) {
  auto x = ask({{"model", "qwen"}, {"tools", tools}});
  ASSERT_EQ(models["qwen"].held.size(), 1u) << x->sent;
  ScriptedAnswer says{models["qwen"], models["qwen"].held[0]};
  says.emit(kSays);
  says.done();
  turn();
  Json answer = json(x);
  EXPECT_EQ(answer["status"], "incomplete");
  EXPECT_EQ(answer["incomplete_details"]["reason"], "max_output_tokens");
  ASSERT_EQ(answer["output"].size(), 3u) << answer;
  EXPECT_EQ(answer["output"][0]["content"][0]["text"], "hm");
  EXPECT_EQ(answer["output"][1]["content"][0]["text"], "So");
  EXPECT_EQ(answer["output"][2]["name"], "f");
  EXPECT_EQ(answer["output"][2]["arguments"], "{\"a\":1}");
  EXPECT_GT(answer["usage"]["output_tokens_details"]["reasoning_tokens"], 1);
}

TEST_F(Responses, AStreamIsTheEventsThatMakeOne) {
  auto x = ask({{"model", "qwen"}, {"tools", tools}, {"stream", true}});
  ScriptedAnswer says{models["qwen"], models["qwen"].held.at(0)};
  says.emit(kSays);
  says.end();
  turn();
  ASSERT_TRUE(x->ended);
  auto all = events(x);
  Json items = Json::array();
  std::map<std::string, std::string> texts, done;
  for (const Json& event : all) {
    const std::string type = event["type"];
    if (type == "response.output_item.added") {
      EXPECT_EQ(event["output_index"], items.size());
      EXPECT_EQ(event["item"]["status"], "in_progress");
      items.push_back(event["item"]);
    } else if (type == "response.output_item.done") {
      items[event["output_index"].get<size_t>()] = event["item"];
    } else if (type.ends_with(".delta")) {
      EXPECT_EQ(event["item_id"], items.back()["id"]);
      texts[type.substr(0, type.rfind('.'))] += event["delta"].get<std::string>();
    } else if (event.contains("text") || event.contains("arguments")) {
      done[type.substr(0, type.rfind('.'))] = event.value("text", event.value("arguments", ""));
    }
  }
  EXPECT_EQ(texts, done);
  EXPECT_EQ(texts["response.output_text"], "So");
  EXPECT_EQ(texts["response.reasoning_text"], "hm");
  EXPECT_EQ(texts["response.function_call_arguments"], "{\"a\":1}");
  EXPECT_EQ(all[0]["type"], "response.created");
  EXPECT_EQ(all[1]["type"], "response.in_progress");
  EXPECT_EQ(all.back()["type"], "response.completed");
  EXPECT_EQ(all.back()["response"]["output"], items);
  EXPECT_EQ(all.back()["response"]["id"], all[0]["response"]["id"]);
}

TEST_F(Responses, ASilentStreamBeginsAndHasComments) {
  auto x = ask({{"stream", true}, {"store", false}});
  env.advance(std::chrono::seconds(31));
  EXPECT_EQ(x->response.status, 200);
  EXPECT_NE(x->sent.find("response.created"), std::string::npos);
  EXPECT_EQ(x->sent.substr(x->sent.size() - 16), ": ping\n\n: ping\n\n");
  scripted().end();
  turn();
  EXPECT_TRUE(x->ended);
  EXPECT_EQ(env.armed(), 0u);
}

TEST_F(Responses, ItemsBecomeTheTurnsOfAChat) {
  auto x = ask({{"input", Json::parse(R"([{"role":"developer","content":"be"},
      {"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]},
      {"type":"reasoning","id":"r","summary":[{"type":"summary_text","text":"hm"}]},
      {"type":"function_call","id":"i","call_id":"c1","name":"f","arguments":"{}"},
      {"type":"function_call","id":"j","call_id":"c2","name":"g","arguments":"{}"},
      {"type":"function_call_output","call_id":"c1","output":"1"},
      {"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"2"}]},
      {"type":"message","role":"assistant","content":[{"type":"output_text","text":"so","annotations":[]}]},
      {"role":"user","content":"and"}])")}});
  ASSERT_EQ(inbox().held.size(), 1u) << x->sent;
  EXPECT_EQ(prompt(), "system:be\nuser:hi\nassistant:None\ntool:1\ntool:2\nassistant:so\nuser:and\nassistant:");
}

TEST_F(Responses, AFormOrAToolIsHeldTo) {
  auto x = ask({{"text", {{"format", {{"type", "json_schema"}, {"name", "n"}, {"schema", {{"const", 7}}}}}}}});
  ASSERT_EQ(inbox().held.size(), 1u) << x->sent;
  EXPECT_TRUE(call()->generation->constraint->accept('7'));
  auto y = ask({{"tools", tools}, {"tool_choice", {{"type", "function"}, {"name", "f"}}}});
  ASSERT_EQ(inbox().held.size(), 2u) << y->sent;
  EXPECT_TRUE(call(1)->generation->constraint);
}

TEST_F(Responses, AnAnswerRepeatsWhatWasAskedAndTheDefaults) {
  auto x = ask(Json::parse(R"({"text":{"format":null,"verbosity":"low"},"reasoning":{"effort":"low"},"user":"u",
      "max_tool_calls":3,"prompt_cache_key":"k","safety_identifier":"s","service_tier":"flex"})"));
  scripted().end();
  turn();
  const Json answer = json(x);
  EXPECT_EQ(answer["text"], Json::parse(R"({"format":{"type":"text"},"verbosity":"low"})"));
  EXPECT_EQ(answer["reasoning"], Json::parse(R"({"effort":"low","summary":null})"));
  EXPECT_EQ(answer["user"], "u");
  EXPECT_EQ(answer["max_tool_calls"], 3);
  EXPECT_EQ(answer["prompt_cache_key"], "k");
  EXPECT_EQ(answer["safety_identifier"], "s");
  EXPECT_EQ(answer["service_tier"], "default") << "what it is served as";
  EXPECT_EQ(answer["background"], false);
  for (const char* name : {"prompt_cache_retention", "previous_response_id", "max_output_tokens", "instructions"})
    EXPECT_TRUE(answer.contains(name) && answer[name].is_null()) << name;
}

TEST_F(Responses, AnEarlierResponseNeedsNoInput) {
  const std::string id = say({});
  auto x = open("POST", "/v1/responses", Json{{"model", "m"}, {"previous_response_id", id}}.dump());
  ASSERT_EQ(inbox().held.size(), 1u) << x->sent;
  EXPECT_EQ(prompt(), "user:hi\nassistant:ab\nassistant:");
}

TEST_F(Responses, MembersThatChangeNothingHaveTheirTypes) {
  for (const char* name : {"user", "service_tier", "safety_identifier", "prompt_cache_key", "metadata",
                           "client_metadata", "stream_options", "prompt_cache_options"})
    EXPECT_EQ(refusal(ask({{name, 5}})).substr(0, 4 + std::strlen(name)), "400 " + std::string(name));
  EXPECT_EQ(refusal(ask({{"metadata", {{"a", 5}}}})), "400 metadata: metadata: expected an object of texts");
  EXPECT_EQ(refusal(ask({{"max_tool_calls", 0}})), "400 max_tool_calls: max_tool_calls: expected a whole number >= 1");
  EXPECT_EQ(refusal(ask({{"include", {"all"}}})), "400 include: include: there is no \"all\" here");
  EXPECT_EQ(refusal(ask({{"tools", Json::object()}})), "400 tools: tools: expected a list");
  EXPECT_EQ(refusal(ask({{"text", {{"format", {{"type", "json_schema"}}}}}})),
            "400 text.format: text.format.schema: expected a JSON schema");
  const Json strict = Json::parse(R"({"format":{"type":"json_schema","name":"a","schema":{},"strict":5}})");
  EXPECT_EQ(refusal(ask({{"text", strict}})),
            "400 text.format.strict: text.format.strict must be true or false, not 5");
}

TEST_F(Responses, WhatItRefusesItNames) {
  EXPECT_EQ(refusal(ask({{"previous_response_id", "resp_1"}})),
            "400 previous_response_id: previous_response_id: there is no such response, or no more");
  EXPECT_EQ(json(ask({{"previous_response_id", "resp_1"}}))["error"]["code"], "previous_response_not_found");
  EXPECT_EQ(refusal(ask({{"store", "yes"}})), "400 store: store: expected true or false");
  EXPECT_EQ(refusal(ask({{"background", true}})), "400 background: background: not offered");
  EXPECT_EQ(refusal(ask({{"inputs", 1}})), "400 inputs: inputs: no such parameter; did you mean input?");
  EXPECT_EQ(refusal(ask({{"input", {{{"role", "user"}, {"content", {{{"type", "input_file"}}}}}}}})),
            "400 input: input[0]: parts of type 'input_file' are not offered");
  EXPECT_EQ(refusal(ask({{"input", nullptr}})), "400 input: input: it is missing");
  EXPECT_EQ(refusal(ask({{"input", Json::array()}})), "400 input: input: the list is empty");
  EXPECT_EQ(refusal(ask({{"max_output_tokens", 0}})).substr(0, 51),
            "400 max_output_tokens: max_output_tokens must be >=");
  EXPECT_EQ(refusal(ask({{"max_output_tokens", 999}})).substr(0, 51),
            "400 max_output_tokens: max_output_tokens must be <=");
  EXPECT_EQ(refusal(ask({{"reasoning", {{"effort", 5}}}})).substr(0, 39), "400 reasoning.effort: reasoning.effort ");
  EXPECT_EQ(
      refusal(ask({{"text", {{"format", {{"type", "json_schema"}, {"strict", true}, {"schema", {{"not", true}}}}}}}}))
          .substr(0, 29),
      "400 text.format: text.format:");
  EXPECT_EQ(refusal(ask({{"input", {{{"role", "user"}, {"content", {{{"type", "input_image"}, {"file_id", "f"}}}}}}}})),
            "400 input: input[0]: an input_image has an image_url; no image is stored here as a file");
  EXPECT_EQ(refusal(ask({{"input", {{{"role", "user"}, {"content", {{{"type", "input_text"}}}}}}}})),
            "400 input: input[0]: text: it is missing");
  EXPECT_EQ(open("POST", "/v1/responses", "{")->response.status, 400);
}

TEST_F(Responses, OneGoesOnBehindAnother) {
  const std::string first = say({{"instructions", "be"}});
  const std::string second = say({{"input", "so"}, {"previous_response_id", first}, {"instructions", "do"}}, "cd");
  auto x = ask({{"input", "and"}, {"previous_response_id", second}});
  ASSERT_EQ(inbox().held.size(), 1u) << x->sent;
  EXPECT_EQ(prompt(), "user:hi\nassistant:ab\nuser:so\nassistant:cd\nuser:and\nassistant:") << "without instructions";
  scripted().end();
  turn();
  EXPECT_EQ(json(x)["previous_response_id"], second);
}

TEST_F(Responses, CallsAndTheirResultsGoOn) {
  auto x = ask({{"model", "qwen"}, {"tools", tools}, {"stream", true}});
  ScriptedAnswer says{models["qwen"], models["qwen"].held.at(0)};
  says.emit(kSays);
  says.end();
  turn();
  const Json response = events(x).back()["response"];
  auto y =
      ask({{"model", "qwen"},
           {"previous_response_id", response["id"]},
           {"input",
            {{{"type", "function_call_output"}, {"call_id", response["output"][2]["call_id"]}, {"output", "7"}}}}});
  ASSERT_EQ(models["qwen"].held.size(), 1u) << y->sent;
  EXPECT_EQ(support::prompt_of(*models["qwen"].held[0]), "user:hi\nassistant:So\ntool:7\nassistant:");
}

// A client would run it with other arguments than the model meant.
TEST_F(Responses, ACallThatTheModelsEndCutsIsNoneOfTheResponse) {
  for (const bool stream : {false, true})
    for (const std::string text : {"So", ""}) {
      auto x = ask({{"model", "qwen"}, {"tools", tools}, {"stream", stream}});
      ScriptedAnswer says{models["qwen"], models["qwen"].held.at(0)};
      says.emit(text + R"(<tool_call>{"name":"f","arguments":{"a":"rm -rf /tmp)");
      says.end();
      turn();
      const Json response = stream ? events(x).back()["response"] : json(x);
      EXPECT_EQ(response["status"], "completed");
      std::string said;
      for (const Json& item : response["output"]) {
        ASSERT_EQ(item["type"], "message") << response;
        EXPECT_EQ(item["status"], "completed");
        said += item["content"][0]["text"].get<std::string>();
      }
      EXPECT_EQ(said, text);
      if (stream) {
        const auto all = events(x);
        EXPECT_EQ(all[all.size() - 2]["item"]["status"], "incomplete") << "what is sent stays sent";
      }
      auto y = ask({{"model", "qwen"}, {"previous_response_id", response["id"]}, {"input", "and"}});
      ASSERT_EQ(models["qwen"].held.size(), 1u) << y->sent;
      EXPECT_EQ(support::prompt_of(*models["qwen"].held[0]), "user:hi\nassistant:" + text + "\nuser:and\nassistant:");
      models.finish_all();
      turn();
    }
}

TEST_F(Responses, AModeOfReasoningChangesNothing) {
  for (const char* mode : {"standard", "pro"}) {
    auto x = ask({{"reasoning", {{"mode", mode}}}});
    ASSERT_EQ(inbox().held.size(), 1u) << x->sent;
    scripted().end();
    turn();
    EXPECT_EQ(json(x)["status"], "completed");
  }
  EXPECT_EQ(refusal(ask({{"reasoning", {{"mood", "good"}}}})), "400 reasoning.mood: reasoning.mood: no such parameter");
}

TEST_F(Responses, WhatIsStoredIsShownAndForgotten) {
  const std::string id = say({});
  auto x = open("GET", "/v1/responses/" + id);
  EXPECT_EQ(json(x)["output"][0]["content"][0]["text"], "ab");
  auto y = open("DELETE", "/v1/responses/" + id);
  EXPECT_EQ(json(y)["deleted"], true);
  EXPECT_EQ(open("GET", "/v1/responses/" + id)->response.status, 404);
  EXPECT_EQ(open("DELETE", "/v1/responses/" + id)->response.status, 404);
  const std::string unkept = say({{"store", false}});
  EXPECT_EQ(open("GET", "/v1/responses/" + unkept)->response.status, 404);
}

TEST_F(Responses, WhatIsStoredIsForgottenInTime) {
  const std::string id = say({});
  env.advance(std::chrono::minutes(9));
  EXPECT_EQ(open("GET", "/v1/responses/" + id)->response.status, 200);
  EXPECT_EQ(stored.size(), 1u);
  env.advance(std::chrono::minutes(2));
  EXPECT_EQ(stored.size(), 0u) << "by a timer";
  EXPECT_EQ(open("GET", "/v1/responses/" + id)->response.status, 404);
}

TEST_F(Responses, WithoutAStoreNothingIsStored) {
  options.stored = nullptr;
  EXPECT_EQ(open("GET", "/v1/responses/x")->response.status, 404);
  EXPECT_EQ(refusal(ask({{"store", true}})), "400 store: store: this server stores no responses");
  say({});
}

responses::StoredResponse of_size(size_t bytes) {
  const auto text = base::Bytes::adopt(std::string(bytes / 2, 'x'));
  return {"", text, text};
}

TEST(StoredResponses, BelongToTheirTenant) {
  responses::StoredResponses stored(std::chrono::minutes(1), 1 << 20);
  EXPECT_TRUE(stored.put(1, "a", of_size(100), base::Time{}));
  EXPECT_TRUE(stored.find(1, "a", base::Time{}));
  EXPECT_FALSE(stored.find(2, "a", base::Time{}));
  EXPECT_FALSE(stored.remove(2, "a", base::Time{}));
  EXPECT_TRUE(stored.remove(1, "a", base::Time{}));
}

TEST(StoredResponses, ATenantsOldestGoWhereItsShareIsUsedUp) {
  base::MemoryLedger ledger(1 << 30);
  responses::StoredResponses stored(std::chrono::minutes(1), 4 << 20, &ledger);
  EXPECT_TRUE(stored.put(2, "other", of_size(1000), base::Time{}));
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(stored.put(1, std::to_string(i), of_size(100'000), base::Time{}));
  EXPECT_FALSE(stored.find(1, "89", base::Time{}));
  EXPECT_TRUE(stored.find(1, "99", base::Time{}));
  EXPECT_TRUE(stored.find(2, "other", base::Time{}));
  EXPECT_LE(ledger.held(base::MemoryKind::kSessions), 2u << 20);
  EXPECT_FALSE(stored.put(1, "big", of_size(2 << 20), base::Time{})) << "more than its share";
  stored.expire(base::Time{} + std::chrono::minutes(1));
  EXPECT_EQ(stored.size(), 0u);
  EXPECT_EQ(ledger.held(base::MemoryKind::kSessions), 0u);
}

TEST_F(Responses, AFailureInTheMiddleIsAnEvent) {
  auto x = ask({{"stream", true}});
  scripted().emit("a");
  turn();
  scripted().fail(base::Code::kUnavailable, "it is gone");
  turn();
  ASSERT_TRUE(x->ended);
  const Json last = events(x).back();
  EXPECT_EQ(last["type"], "response.failed");
  EXPECT_EQ(last["response"]["error"]["message"], "it is gone");
}

TEST_F(Responses, ToolsThatAreNotAllowedAreNotShown) {
  const Json both = Json::parse(R"([{"type":"function","name":"f","parameters":{"type":"object"}},
                                   {"type":"function","name":"g","parameters":{"type":"object"}}])");
  auto allowed = [](const char* mode, const char* name) {
    return Json{{"type", "allowed_tools"}, {"mode", mode}, {"tools", {{{"type", "function"}, {"name", name}}}}};
  };
  auto x = ask({{"tools", both}, {"tool_choice", allowed("required", "g")}});
  ASSERT_EQ(inbox().held.size(), 1u) << x->sent;
  for (char c : std::string_view("{\"name\": \"g\""))
    ASSERT_TRUE(call()->generation->constraint->accept(uint8_t(c))) << c;
  scripted().emit("{\"name\": \"g\", \"parameters\": {}}");
  scripted().end();
  turn();
  EXPECT_EQ(json(x)["output"][0]["name"], "g");
  EXPECT_EQ(json(x)["tool_choice"]["mode"], "required") << "it is repeated as it was asked for";
  auto free = ask({{"model", "qwen"}, {"tools", both}, {"tool_choice", allowed("auto", "f")}});
  EXPECT_FALSE(models["qwen"].held.at(0)->generation->constraint);
  EXPECT_EQ(refusal(ask({{"tools", both}, {"tool_choice", allowed("required", "h")}})),
            "400 tool_choice: tool_choice.tools: no tool, or more than one, has the name 'h'");
  EXPECT_EQ(refusal(ask({{"tools", both}, {"tool_choice", allowed("always", "f")}})).substr(0, 29),
            "400 tool_choice: tool_choice.");
}

TEST_F(Responses, LogprobsAreIncludedWhereTheyAreAskedFor) {
  const Json include = {"message.output_text.logprobs"};
  auto answer = [&] {
    EXPECT_EQ(call()->generation->top_logprobs, 1u);
    scripted().token('A', likely(-0.5f, {{'A', -0.5f}}));
    scripted().token('B', likely(-1, {{'A', -0.25f}}));
    scripted().end();
    turn();
  };
  auto x = ask({{"include", include}, {"top_logprobs", 1}});
  answer();
  const Json part = json(x)["output"][0]["content"][0];
  EXPECT_EQ(part["text"], "AB");
  ASSERT_EQ(part["logprobs"].size(), 2u);
  EXPECT_EQ(part["logprobs"][1], Json::parse(R"({"token":"B","logprob":-1.0,"bytes":[66],"top_logprobs":[
      {"token":"A","logprob":-0.25,"bytes":[65]}]})"));
  auto stream = ask({{"include", include}, {"top_logprobs", 1}, {"stream", true}});
  answer();
  std::string told;
  for (const Json& event : events(stream)) {
    if (event["type"] == "response.output_text.delta")
      for (const Json& one : event["logprobs"]) told += one["token"].get<std::string>();
    if (event["type"] == "response.output_text.done") {
      EXPECT_EQ(event["logprobs"], part["logprobs"]);
    }
    if (event["type"] == "response.content_part.done") {
      EXPECT_EQ(event["part"]["logprobs"], part["logprobs"]);
    }
    if (event["type"] == "response.content_part.added") {
      EXPECT_EQ(event["part"]["logprobs"], Json::array());
    }
  }
  EXPECT_EQ(told, "AB");
  EXPECT_EQ(refusal(ask({{"top_logprobs", 2}})).substr(0, 37), "400 top_logprobs: top_logprobs: needs");
  EXPECT_EQ(refusal(ask({{"include", include}, {"top_logprobs", 21}})).substr(0, 17), "400 top_logprobs:");
}

}  // namespace
}  // namespace weir::openai
