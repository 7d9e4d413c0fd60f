// Ollama's API on the same models.
#include "bench.h"

namespace weir::openai {
namespace {

class Ollama : public OpenaiBench {
 protected:
  Opened ask(std::string path, const Json& body) { return open("POST", "/api/" + path, body.dump()); }
  static std::vector<Json> lines(const Opened& x) {
    std::vector<Json> out;
    std::string_view rest = x->sent;
    for (size_t end; (end = rest.find('\n')) != rest.npos; rest.remove_prefix(end + 1))
      out.push_back(Json::parse(rest.substr(0, end)));
    EXPECT_TRUE(rest.empty());
    return out;
  }
  static std::string refusal(const Opened& x) {
    return std::to_string(x->response.status) + " " + json(x)["error"].get<std::string>();
  }
  const Json messages = Json::parse(R"([{"role":"user","content":"hi"}])");
};

TEST_F(Ollama, AChatIsLinesAndTheLastHasTheFigures) {
  auto x = ask(
      "chat", {{"model", "m:latest"}, {"messages", messages}, {"options", {{"temperature", 0.5}, {"num_predict", 7}}}});
  EXPECT_EQ(call()->generation->max_tokens, 7u);
  EXPECT_EQ(call()->generation->sampling.temperature, 0.5F);
  scripted().emit("ab");
  turn();
  scripted().end();
  turn();
  ASSERT_TRUE(x->ended);
  EXPECT_EQ(x->response.fields.find("content-type"), "application/x-ndjson");
  auto said = lines(x);
  ASSERT_GE(said.size(), 2u);
  std::string text;
  for (const Json& line : said) {
    text += line["message"]["content"].get<std::string>();
    EXPECT_EQ(line["message"]["role"], "assistant");
    EXPECT_EQ(line["model"], "m");
    EXPECT_EQ(line["created_at"].get<std::string>().size(), 27u);
    EXPECT_EQ(line["done"], &line == &said.back());
  }
  EXPECT_EQ(text, "ab");
  EXPECT_EQ(said.back()["done_reason"], "stop");
  EXPECT_EQ(said.back()["prompt_eval_count"], 18);
  EXPECT_TRUE(said.back()["total_duration"].is_number_unsigned());
}

TEST_F(Ollama, WithoutAStreamItIsOneObject) {
  auto x = ask("chat", {{"model", "m"}, {"messages", messages}, {"stream", false}});
  EXPECT_EQ(call()->generation->max_tokens, 200u - 18);
  scripted().emit("ab");
  scripted().done(msg::Finish::kLength);
  turn();
  Json answer = json(x);
  EXPECT_EQ(answer["message"]["content"], "ab");
  EXPECT_EQ(answer["done"], true);
  EXPECT_EQ(answer["done_reason"], "length");
  EXPECT_EQ(answer["eval_count"], 2);
}

// Clients divide the tokens by their time.
TEST_F(Ollama, TokensTakeTimeAlsoWhereTheirTextComesLater) {
  auto one = ask("chat", {{"model", "m"}, {"messages", messages}, {"stream", false}});
  scripted().emit("a");
  scripted().end();
  turn();
  EXPECT_GT(json(one)["eval_duration"].get<int64_t>(), 0);
  auto held =
      ask("chat", {{"model", "m"}, {"messages", messages}, {"options", {{"stop", {"abc"}}}}, {"stream", false}});
  held->time += std::chrono::seconds(1);
  scripted().emit("a");
  turn();
  held->time += std::chrono::seconds(2);
  scripted().emit("d");
  scripted().end();
  turn();
  EXPECT_EQ(json(held)["eval_duration"], 2'000'000'000) << "\"a\" is held back: it may begin the stop string";
  EXPECT_LE(json(held)["prompt_eval_duration"].get<int64_t>(), 1'000'000'000) << "the rest is the queue's";
  for (const char* name : {"load_duration", "prompt_eval_duration"})
    EXPECT_GT(json(one)[name].get<int64_t>(), 0) << name << ": to clients in Go 0 is as good as missing";
}

TEST_F(Ollama, APromptGoesThroughTheTemplateUnlessItIsRaw) {
  auto x = ask("generate", {{"model", "m"}, {"prompt", "hi"}, {"system", "be"}, {"stream", false}});
  EXPECT_EQ(support::prompt_of(*call()), "system:be\nuser:hi\nassistant:");
  scripted().emit("ab");
  scripted().end();
  turn();
  EXPECT_EQ(json(x)["response"], "ab");
  auto y = ask("generate", {{"model", "m"}, {"prompt", "hi"}, {"raw", true}, {"stream", false}});
  EXPECT_EQ(support::prompt_of(*call()), "hi");
  EXPECT_EQ(call()->generation->max_tokens, 198u) << "as much as the context has";
}

TEST_F(Ollama, WithoutMessagesTheModelIsSaidToBeThere) {
  EXPECT_EQ(json(ask("chat", {{"model", "m"}}))["done_reason"], "load");
  EXPECT_EQ(json(ask("generate", {{"model", "m"}, {"keep_alive", 0}}))["done_reason"], "unload");
  EXPECT_EQ(refusal(ask("chat", {{"model", "q"}})).substr(0, 4), "404 ");
}

TEST_F(Ollama, CallsOfToolsAndTheirResultsReachTheTemplate) {
  auto x = ask("chat", {{"model", "m"},
                        {"stream", false},
                        {"messages",
                         {{{"role", "user"}, {"content", "hi"}},
                          {{"role", "assistant"},
                           {"content", ""},
                           {"tool_calls", {{{"function", {{"name", "f"}, {"arguments", {{"a", 1}}}}}}}}},
                          {{"role", "tool"}, {"tool_name", "f"}, {"content", "2"}}}}});
  ASSERT_EQ(inbox().held.size(), 1u) << x->sent;
  EXPECT_EQ(support::prompt_of(*call()), "user:hi\nassistant:\ntool:2\nassistant:");
}

TEST_F(Ollama, CallsOfToolsComeWholeWithThoughtsBeside) {
  models.add(support::tools_spec("qwen", "{# <tool_call></think> #}"));
  const Json tools = Json::parse(R"([{"type":"function","function":{"name":"f","parameters":{}}}])");
  for (bool stream : {false, true}) {
    auto x = ask("chat", {{"model", "qwen"}, {"messages", messages}, {"tools", tools}, {"stream", stream}});
    ASSERT_EQ(models["qwen"].held.size(), 1u) << x->sent;
    ScriptedAnswer says{models["qwen"], models["qwen"].held[0]};
    says.emit("<think>hm</think>So <tool_call>{\"name\":\"f\",\"arguments\":{\"a\":[1]}}</tool_call>");
    says.emit("<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>");
    says.emit("<tool_call>{\"name\":\"f\",\"arguments\":{\"cut");
    says.done();
    turn();
    ASSERT_TRUE(x->ended);
    std::string thoughts, text;
    Json calls = Json::array();
    const std::vector<Json> one = {stream ? Json() : json(x)};
    for (const Json& line : stream ? lines(x) : one) {
      thoughts += line["message"].value("thinking", "");
      text += line["message"]["content"].get<std::string>();
      for (const Json& call : line["message"].value("tool_calls", Json::array())) calls.push_back(call);
    }
    EXPECT_EQ(thoughts, "hm");
    EXPECT_EQ(text, "So");
    ASSERT_EQ(calls.size(), 2u) << "the one that was cut is left out";
    EXPECT_EQ(calls[0]["function"]["name"], "f");
    EXPECT_EQ(calls[0]["function"]["arguments"], Json::parse(R"({"a":[1]})"));
    EXPECT_EQ(calls[1]["function"]["arguments"], Json::object());
  }
}

TEST_F(Ollama, WhatItRefusesItNames) {
  auto with = [&](Json more) {
    more.update({{"model", "m"}, {"messages", messages}});
    return refusal(ask("chat", more));
  };
  EXPECT_EQ(with({{"options", {{"num_predict", "3"}}}}), "400 options.num_predict must be a whole number");
  EXPECT_EQ(with({{"options", {{"temperature", "hot"}}}}), "400 temperature must be >= 0 and <= 2, not a string");
  EXPECT_EQ(with({{"stream", "yes"}}),
            "400 a member has another type than it should: its type must be boolean, but is string");
  EXPECT_EQ(with({{"options", {{"repeat_penalty", 0}}}}).substr(0, 34), "400 options.repeat_penalty must be");
  for (const Json& value : {Json(3), Json("much")})
    EXPECT_EQ(with({{"think", value}}), "400 think: takes true, false, \"low\", \"medium\", \"high\" or \"max\"");
  for (const Json& value : {Json("soon"), Json("5 m"), Json(true), Json::array()})
    EXPECT_EQ(with({{"keep_alive", value}}), "400 keep_alive: expected seconds, or a duration such as \"5m\"");
  EXPECT_EQ(with({{"options", {{"num_ctx", "x"}}}}), "400 options.num_ctx: expected a number, true or false");
  EXPECT_EQ(with({{"tools", Json::object()}}).substr(0, 10), "400 tools ");
  EXPECT_EQ(with({{"shift", 5}}).substr(0, 28), "400 a member has another typ");
  EXPECT_EQ(refusal(open("POST", "/api/chat", "[1]")).substr(0, 4), "400 ");
  EXPECT_EQ(refusal(open("POST", "/api/chat", std::string(5000, '['))).substr(0, 4), "400 ");
  EXPECT_EQ(refusal(ask("copy", {{"source", "m"}})).substr(0, 4), "501 ");
}

TEST_F(Ollama, DurationsAreThoseOfGo) {
  for (const Json& value : {Json("1h30m"), Json("-1ns"), Json("0"), Json("1.5s"), Json(-1), Json(0.5)}) {
    auto x = ask("chat", {{"model", "m"}, {"messages", messages}, {"keep_alive", value}});
    EXPECT_EQ(inbox().held.size(), 1u) << value << x->sent;
    models.finish_all();
    turn();
  }
}

TEST_F(Ollama, NothingHasNoEmbeddings) {
  for (const Json& input : {Json(""), Json::array(), Json()}) {
    auto x = ask("embed", {{"model", "m"}, {"input", input}});
    EXPECT_EQ(x->response.status, 200) << x->sent;
    EXPECT_EQ(json(x)["embeddings"], Json::array()) << input;
  }
  for (const char* input : {"5", "[5]", "[[5]]", "{}"})
    EXPECT_EQ(refusal(ask("embed", {{"model", "m"}, {"input", Json::parse(input)}})),
              "400 input: expected a text or a list of texts");
  EXPECT_EQ(refusal(ask("embed", {{"model", "q"}, {"input", ""}})).substr(0, 4), "404 ");
}

TEST_F(Ollama, WhatOllamaDoesNotKnowIsPassedOverAndNamed) {
  auto x = ask("chat", {{"model", "m"},
                        {"messages", {{{"role", "User"}, {"content", "hi"}}}},
                        {"shiny", 1},
                        {"keep_alive", "5m"},
                        {"truncate", true},
                        {"shift", false},
                        {"options",
                         {{"temprature", 1},
                          {"mirostat", 2},
                          {"num_ctx", 4096},
                          {"typical_p", 0.7},
                          {"stop", ""},
                          {"seed", -1},
                          {"num_gqa", nullptr}}}});
  ASSERT_EQ(inbox().held.size(), 1u) << x->sent;
  EXPECT_EQ(x->extra_fields().find("weir-ignored"), "shiny, options.mirostat, options.temprature, options.typical_p");
  EXPECT_FALSE(call()->generation->sampling.seed);
  EXPECT_EQ(support::prompt_of(*call()), "user:hi\nassistant:");
  auto y = ask("embed", {{"model", "m"}, {"input", "a"}, {"shiny", 1}, {"options", {{"num_gqa", 1}}}});
  ASSERT_EQ(inbox().held.size(), 2u) << y->sent;
  EXPECT_EQ(y->extra_fields().find("weir-ignored"), "shiny");
}

TEST_F(Ollama, ALengthIsCutToTheContextAndNoneBelowOne) {
  for (const Json& tokens : {Json(8000), Json(0), Json(-1), Json(-2), Json(0.5), Json(1e300)}) {
    auto x = ask("chat", {{"model", "m"}, {"messages", messages}, {"options", {{"num_predict", tokens}}}});
    ASSERT_EQ(inbox().held.size(), 1u) << x->sent;
    EXPECT_EQ(call()->generation->max_tokens, 200u - 18) << tokens;
    models.finish_all();
    turn();
  }
  ask("chat", {{"model", "m"}, {"messages", messages}, {"options", {{"num_predict", 4.0}}}});
  EXPECT_EQ(call()->generation->max_tokens, 4u);
}

// The context has 200 tokens, which are bytes.
TEST_F(Ollama, AChatThatIsTooLongBeginsLater) {
  Json talk = Json::array({{{"role", "system"}, {"content", "be"}}});
  const auto say = [&](const char* role, char letter, size_t count = 30) {
    talk.push_back({{"role", role}, {"content", std::string(count, letter)}});
  };
  for (char letter : {'a', 'b', 'c', 'd'}) say("user", letter), say("assistant", letter);
  talk[1]["images"] = Json::array({"iVBORw0KGgo="});
  say("user", 'e');
  auto x = ask("chat", {{"model", "m"}, {"messages", talk}});
  ASSERT_EQ(inbox().held.size(), 1u) << x->sent;
  const auto turn_of = [](const char* role, char letter) { return role + std::string(30, letter) + "\n"; };
  EXPECT_EQ(support::prompt_of(*call()),
            "system:be\n" + turn_of("user:", 'd') + turn_of("assistant:", 'd') + turn_of("user:", 'e') + "assistant:");
  EXPECT_TRUE(call()->generation->images.empty());
  EXPECT_EQ(call()->generation->max_tokens, 200u - call()->generation->append.size());
  EXPECT_EQ(refusal(ask("chat", {{"model", "m"}, {"messages", talk}, {"truncate", false}})).substr(0, 4), "400 ");
}

TEST_F(Ollama, ResultsOfToolsStayWithTheirCalls) {
  const Json calls = Json::parse(R"([{"function":{"name":"f","arguments":{}}}])");
  Json talk = Json::array({{{"role", "user"}, {"content", std::string(150, 'a')}},
                           {{"role", "user"}, {"content", "b"}},
                           {{"role", "assistant"}, {"content", ""}, {"tool_calls", calls}},
                           {{"role", "tool"}, {"content", std::string(20, 'c')}}});
  auto x = ask("chat", {{"model", "m"}, {"messages", talk}});
  ASSERT_EQ(inbox().held.size(), 1u) << x->sent;
  EXPECT_EQ(support::prompt_of(*call()), "user:b\nassistant:\ntool:" + std::string(20, 'c') + "\nassistant:");
}

TEST_F(Ollama, ATextThatIsTooLongLosesItsMiddle) {
  const std::string text = "b" + std::string(500, 'x') + "end";
  auto x = ask("generate", {{"model", "m"}, {"prompt", text}});
  ASSERT_EQ(inbox().held.size(), 1u) << x->sent;
  const std::string prompt = support::prompt_of(*call());
  EXPECT_EQ(prompt.size(), 150u);
  EXPECT_EQ(prompt, "user" + std::string(150 - 4 - 14, 'x') + "end\nassistant:");
  auto y = ask("generate", {{"model", "m"}, {"prompt", text}, {"raw", true}, {"options", {{"num_predict", 10}}}});
  ASSERT_EQ(inbox().held.size(), 2u) << y->sent;
  EXPECT_EQ(support::prompt_of(*call(1)), "bxxx" + std::string(190 - 4 - 3, 'x') + "end");
  EXPECT_EQ(call(1)->generation->max_tokens, 10u);
  for (const char* path : {"generate", "chat"}) {
    Json body = {{"model", "m"}, {"truncate", false}, {"prompt", text}};
    body["messages"] = Json::array({{{"role", "user"}, {"content", text}}});
    EXPECT_EQ(refusal(ask(path, body)).substr(0, 4), "400 ") << path;
  }
}

// Its bytes alone are more than any context of 200 tokens has.
TEST_F(Ollama, SoDoesATextThatIsNotEvenEncoded) {
  const std::string text = "b" + std::string(100'000, 'x') + "end";
  const std::string expected = "user" + std::string(150 - 4 - 14, 'x') + "end\nassistant:";
  auto x = ask("generate", {{"model", "m"}, {"prompt", text}});
  ASSERT_EQ(inbox().held.size(), 1u) << x->sent;
  EXPECT_EQ(support::prompt_of(*call()), expected);
  auto y = ask("generate", {{"model", "m"}, {"prompt", text}, {"raw", true}, {"options", {{"num_predict", 10}}}});
  ASSERT_EQ(inbox().held.size(), 2u) << y->sent;
  EXPECT_EQ(support::prompt_of(*call(1)), "bxxx" + std::string(190 - 4 - 3, 'x') + "end");
  const Json last = {{"role", "user"}, {"content", text}};
  auto z = ask("chat", {{"model", "m"}, {"messages", Json::array({last})}});
  ASSERT_EQ(inbox().held.size(), 3u) << z->sent;
  EXPECT_EQ(support::prompt_of(*call(2)), expected);
  const Json first = {{"role", "user"}, {"content", std::string(30'000, 'a')}};
  auto v = ask("chat", {{"model", "m"}, {"messages", Json::array({first, last})}});
  ASSERT_EQ(inbox().held.size(), 4u) << v->sent;
  EXPECT_EQ(support::prompt_of(*call(3)), expected);
}

TEST_F(Ollama, OfATextThatIsEmbeddedTheEndGoes) {
  for (const size_t length : {300, 100'000}) {
    const std::string text = "b" + std::string(length, 'x') + "end";
    auto x = ask("embed", {{"model", "m"}, {"input", text}});
    auto y = ask("embeddings", {{"model", "m"}, {"prompt", text}});
    ASSERT_EQ(inbox().held.size(), 2u) << x->sent << y->sent;
    for (int i = 0; i < 2; ++i) EXPECT_EQ(support::prompt_of(*call(i)), "b" + std::string(199, 'x'));
    models.finish_all();
    turn();
  }
}

TEST_F(Ollama, LogprobsStandBesideTheText) {
  for (const char* path : {"chat", "generate"}) {
    Json body = {{"model", "m"}, {"stream", false}, {"logprobs", true}, {"top_logprobs", 1}};
    if (path == std::string("chat"))
      body["messages"] = messages;
    else
      body["prompt"] = "hi", body["raw"] = true;
    auto x = ask(path, body);
    ASSERT_EQ(inbox().held.size(), 1u) << x->sent;
    EXPECT_EQ(call()->generation->top_logprobs, 1u);
    scripted().token('a', likely(-0.5F, {{'b', -0.25F}}));
    scripted().end();
    turn();
    EXPECT_EQ(json(x)["logprobs"], Json::parse(R"([{"token":"a","logprob":-0.5,"bytes":[97],
                               "top_logprobs":[{"token":"b","logprob":-0.25,"bytes":[98]}]}])"))
        << x->sent;
  }
}

TEST_F(Ollama, ModelsAreListedAndShown) {
  Json tags = json(open("GET", "/api/tags"));
  ASSERT_EQ(tags["models"].size(), 1u) << "models of tensors are none of Ollama's";
  EXPECT_EQ(tags["models"][0]["name"], "m:latest");
  EXPECT_EQ(tags["models"][0]["digest"].get<std::string>().size(), 64u);
  Json shown = json(ask("show", {{"model", "m"}}));
  EXPECT_EQ(shown["model_info"]["weir.context_length"], 200);
  EXPECT_EQ(shown["capabilities"], Json::parse(R"(["completion","vision"])"));
  EXPECT_EQ(json(open("GET", "/api/ps"))["models"][0]["model"], "m:latest");
  EXPECT_EQ(json(open("GET", "/api/version"))["version"], "0.13.5") << "Ollama's, not this server's";
  EXPECT_EQ(json(ask("pull", {{"model", "m"}, {"stream", false}}))["status"], "success");
  const std::string pulled = refusal(ask("pull", {{"model", "q"}}));
  EXPECT_EQ(pulled.substr(0, 4), "404 ");
  EXPECT_NE(pulled.find("models are not pulled"), std::string::npos) << pulled;
}

TEST_F(Ollama, AModelIsShownWithWhatItCanDo) {
  const std::string thinking_and_tools = "{# <tool_call></think> #}";
  models.add(support::tools_spec("a", thinking_and_tools, {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"}));
  models.add(support::tools_spec("b", ""));
  const auto capabilities = [&](const char* name) { return json(ask("show", {{"model", name}}))["capabilities"]; };
  EXPECT_EQ(capabilities("a"), Json({"completion", "vision", "tools", "thinking", "insert"}));
  EXPECT_EQ(capabilities("b"), Json({"completion", "vision"}));
}

TEST_F(Ollama, AnEmptyPromptHasNoEmbedding) {
  for (const Json& body : {Json{{"model", "m"}, {"prompt", ""}}, Json{{"model", "m"}}}) {
    auto x = ask("embeddings", body);
    EXPECT_EQ(x->response.status, 200);
    EXPECT_EQ(json(x), Json::parse(R"({"embedding":[]})"));
  }
  EXPECT_EQ(refusal(ask("embeddings", {{"model", "q"}})).substr(0, 4), "404 ");
}

TEST_F(Ollama, APromptThatCannotBeEmbeddedIsToldByItsName) {
  EXPECT_EQ(refusal(ask("embeddings", {{"model", "m"}, {"prompt", {900}}})).substr(0, 22), "400 prompt: token id 9");
  EXPECT_EQ(refusal(ask("embed", {{"model", "m"}, {"input", {""}}})), "400 input: a text without tokens");
}

TEST_F(Ollama, EmbeddingsHaveLengthOne) {
  auto x = ask("embed", {{"model", "m"}, {"input", {"a", "b"}}});
  for (int i = 0; i < 2; ++i) inbox().finish(call(), support::outputs("embedding FP32 [2] [3,4]"));
  turn();
  EXPECT_EQ(json(x)["embeddings"], Json::parse("[[0.6,0.8],[0.6,0.8]]")) << x->sent;
  EXPECT_EQ(json(x)["prompt_eval_count"], 2);
}

}  // namespace
}  // namespace weir::openai
