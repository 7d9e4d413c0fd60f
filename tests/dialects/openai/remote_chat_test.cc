// Models whose chats another server has (msg::TextSpec::remote_chat): what goes along, and what that server tells
// of its own tokens.
#include "bench.h"
#include "msg/text_codec.h"

namespace weir::openai {
namespace {

using Thinking = msg::TextSpec::RemoteChat::Thinking;

class RemoteChat : public OpenaiBench {
 protected:
  RemoteChat() {
    add("there", Thinking::kVariables, true);
    add("effort", Thinking::kEffort, false);
    add("proxy", Thinking::kUntold, false);
  }
  void add(const char* name, Thinking thinking, bool sees) {
    auto spec = support::tools_spec(name, "{# <tool_call></think> #}{{ elsewhere|tojson }}|");
    auto text = std::make_shared<msg::TextSpec>(*spec.text);
    text->remote_chat = msg::TextSpec::RemoteChat{thinking};
    if (sees)
      text->vision->features = [](std::string_view, std::string_view) { return base::Result<uint32_t>(1); };
    else
      text->vision.reset();
    spec.text = std::move(text);
    models.add(std::move(spec));
  }
  Opened ask(const std::string& model, Json body) {
    body["model"] = model;
    return chat(std::move(body));
  }
  const msg::Generation& asked(const std::string& model) { return *models[model].held.back()->generation; }
  // The members beside messages and tools.
  Json members(const std::string& model, Json body) { return told(model, ask(model, std::move(body))); }
  Json told(const std::string& model, const Opened& x) {
    if (models[model].held.empty()) return json(x);
    static const auto codec = support::byte_processor();
    const std::string text = codec->decode(asked(model).append, msg::SkipSpecial::kNo);
    models.finish_all();
    turn();
    return Json::parse(text.substr(0, text.find('|')), nullptr, false);
  }
  static Json tools() {
    return Json::parse(R"([{"type":"function","function":{"name":"f","strict":true,"parameters":)"
                       R"({"type":"object","not":{},"properties":{}}}}])");
  }
  static Json image(Json url) {
    return {{"messages", {{{"role", "user"}, {"content", {{{"type", "image_url"}, {"image_url", std::move(url)}}}}}}}};
  }
};

TEST_F(RemoteChat, CallsThatMustBeMadeAreNotHeldToHere) {
  const Json named = Json::parse(R"({"type":"function","function":{"name":"f"}})");
  EXPECT_EQ(members("there", {{"tools", tools()}, {"tool_choice", "required"}}), Json({{"tool_choice", "required"}}));
  EXPECT_EQ(members("there", {{"tools", tools()}, {"tool_choice", named}, {"parallel_tool_calls", false}}),
            Json({{"tool_choice", named}, {"parallel_tool_calls", false}}));
  EXPECT_EQ(members("there", {{"tools", tools()}}), Json::object());
  EXPECT_EQ(members("there", {{"tools", tools()}, {"tool_choice", "none"}}), Json::object());
  EXPECT_EQ(error(ask("there", {{"tools", tools()},
                                {"tool_choice", Json::parse(R"({"type":"function","function":{"name":"g"}})")}})),
            "400 invalid_request_error - tool_choice");
}

TEST_F(RemoteChat, SettingsOfThoughtsAreTold) {
  const Json off = {{"enable_thinking", false}, {"thinking", false}};
  EXPECT_EQ(members("there", {{"reasoning_effort", "low"}, {"verbosity", "high"}}),
            Json({{"reasoning_effort", "low"}, {"verbosity", "high"}}));
  EXPECT_EQ(members("there", {{"enable_thinking", false}}), Json({{"chat_template_kwargs", off}}));
  EXPECT_EQ(members("there", {{"chat_template_kwargs", {{"thinking", false}, {"x", 1}}}}).at("chat_template_kwargs"),
            Json({{"enable_thinking", false}, {"thinking", false}, {"x", 1}}));
  EXPECT_EQ(members("effort", {{"enable_thinking", false}}), Json({{"reasoning_effort", "none"}}));
  EXPECT_EQ(members("effort", {{"enable_thinking", true}}), Json::object());
  EXPECT_EQ(members("effort", {{"chat_template_kwargs", {{"thinking", true}, {"x", 1}}}}),
            Json({{"chat_template_kwargs", {{"x", 1}}}}));
}

// They are the bytes of a message to that server.
TEST_F(RemoteChat, IdsOfAChatAreNotToldNorTaken) {
  auto x = open("POST", "/api/generate", R"({"model":"there","prompt":"hi","stream":false})");
  ScriptedAnswer says{models["there"], models["there"].held.at(0)};
  says.emit("ab");
  says.end();
  turn();
  EXPECT_EQ(json(x)["response"], "ab");
  EXPECT_FALSE(json(x).contains("context"));
  const auto behind = open("POST", "/api/generate", R"({"model":"there","prompt":"hi","context":[1,2]})");
  EXPECT_EQ(behind->response.status, 400) << "what is before the message is none";
  auto y = ask("there", {{"return_token_ids", true}});
  ScriptedAnswer more{models["there"], models["there"].held.at(0)};
  more.emit("ab");
  more.end();
  turn();
  EXPECT_FALSE(json(y)["choices"][0].contains("token_ids"));
}

TEST_F(RemoteChat, AFilterOfContentsIsNoEndOfTheText) {
  const Json said = Json::array({{{"role", "user"}, {"content", "a"}}});
  const auto answer = [&](const char* path, const Json& body) {
    auto x = open("POST", path, body.dump());
    ScriptedAnswer says{models["there"], models["there"].held.at(0)};
    says.emit("ab");
    says.done(msg::Finish::kFiltered);
    turn();
    return json(x);
  };
  const Json chat = {{"model", "there"}, {"messages", said}};
  EXPECT_EQ(answer("/v1/chat/completions", chat)["choices"][0]["finish_reason"], "content_filter");
  const Json anthropic = {{"model", "there"}, {"messages", said}, {"max_tokens", 5}};
  EXPECT_EQ(answer("/v1/messages", anthropic)["stop_reason"], "refusal");
  const Json ollama = {{"model", "there"}, {"messages", said}, {"stream", false}};
  EXPECT_EQ(answer("/api/chat", ollama)["done_reason"], "stop");
  const Json response = answer("/v1/responses", {{"model", "there"}, {"input", "a"}, {"store", false}});
  EXPECT_EQ(response["status"], "incomplete");
  EXPECT_EQ(response["incomplete_details"]["reason"], "content_filter");
}

TEST_F(RemoteChat, AMessageToThatServerIsNotCut) {
  EXPECT_EQ(error(ask("there", {{"truncate_prompt_tokens", 5}})), "400 invalid_request_error - truncate_prompt_tokens");
  const std::string many(3000, 'a');  // more than its context
  const Json long_one = {{"model", "there"}, {"messages", {{{"role", "user"}, {"content", many}}}}};
  EXPECT_EQ(open("POST", "/api/chat", long_one.dump())->response.status, 400) << "Ollama cuts the middle out";
  EXPECT_TRUE(models["there"].held.empty());
}

// A proxy does not say what is behind it, and hands on what it does not know.
TEST_F(RemoteChat, VariablesOfTemplatesAreTheOrigins) {
  const Json off = {{"chat_template_kwargs", {{"enable_thinking", false}}}};
  EXPECT_EQ(members("proxy", off), off);
  EXPECT_EQ(members("proxy", {{"enable_thinking", false}}), Json::object());
  EXPECT_EQ(members("proxy", {{"reasoning_effort", "none"}}), Json({{"reasoning_effort", "none"}}));
  const Json words = {{"chat_template_kwargs", {{"thinking", "much"}}}};
  EXPECT_EQ(members("there", words), words);
}

// The origin would refuse a member that its own clients do not send.
TEST_F(RemoteChat, OtherProtocolsDoNotAskWithVariables) {
  const Json said = Json::array({{{"role", "user"}, {"content", "a"}}});
  const auto whether = [&](const char* model) {
    const Json ollama = {{"model", model}, {"messages", said}, {"think", false}};
    const Json anthropic = {
        {"model", model}, {"messages", said}, {"max_tokens", 5}, {"thinking", {{"type", "disabled"}}}};
    const Json out = told(model, open("POST", "/api/chat", ollama.dump()));
    EXPECT_EQ(told(model, open("POST", "/v1/messages", anthropic.dump())), out);
    return out;
  };
  EXPECT_EQ(whether("proxy"), Json::object());
  EXPECT_EQ(whether("effort"), Json({{"reasoning_effort", "none"}}));
  EXPECT_EQ(whether("there"), Json({{"chat_template_kwargs", {{"enable_thinking", false}, {"thinking", false}}}}));
}

// Older servers refuse this effort, and others pass over it.
TEST_F(RemoteChat, NoEffortIsNoThinking) {
  const Json off = {{"chat_template_kwargs", {{"enable_thinking", false}, {"thinking", false}}}};
  EXPECT_EQ(members("there", {{"reasoning_effort", "none"}}), off);
  EXPECT_EQ(members("there", {{"reasoning_effort", "none"}, {"enable_thinking", true}}),
            Json({{"chat_template_kwargs", {{"enable_thinking", true}, {"thinking", true}}}}));
  EXPECT_EQ(members("effort", {{"reasoning_effort", "none"}}), Json({{"reasoning_effort", "none"}}));
}

TEST_F(RemoteChat, ImagesStayAsTheyCame) {
  const auto kept = [&](Json url) {
    auto x = ask("there", image(std::move(url)));
    if (models["there"].held.empty()) return error(x);
    const auto& images = asked("there").images;
    EXPECT_EQ(images.size(), 1u);
    std::string out(images[0].data.view());
    EXPECT_TRUE(images[0].as_json);
    models.finish_all();
    turn();
    return out;
  };
  const std::string no = "400 invalid_request_error - messages";
  EXPECT_EQ(kept("data:image/png;base64,@@"), R"({"url":"data:image/png;base64,@@"})");
  EXPECT_EQ(kept("data:x,a\r\nb"), R"({"url":"data:x,ab"})");
  EXPECT_EQ(kept({{"url", "https://h/a?b"}, {"detail", "high"}}), R"({"url":"https://h/a?b","detail":"high"})");
  EXPECT_EQ(kept({{"url", "http://h"}, {"detail", "h\""}}), R"({"url":"http://h"})");
  for (const char* url : {"", "file:///a", "ftp://h", "http://h/\"", "http://h/ b", "http://h/\u00fc", "data:\\"})
    EXPECT_EQ(kept(url), no) << url;
  EXPECT_EQ(kept("http://h/" + std::string(9000, 'a')), no);
  EXPECT_EQ(error(ask("effort", image("http://h/"))), no);
}

TEST_F(RemoteChat, LogProbabilitiesNameTheOriginsTokens) {
  auto x = ask("there", {{"logprobs", true}, {"top_logprobs", 1}});
  msg::Call* call = models["there"].held.back();
  auto details = std::make_shared<msg::TokenDetails>();
  details->has_logprob = true, details->logprob = -0.5f, details->top = {{261, -0.5f}, {261, -1}};
  details->texts = {"Gr\xc3", "Gr\xc3", "x"};
  const uint32_t at = uint32_t(call->generation->length());
  models["there"].post(call, {msg::Token{.id = 261, .position = at, .prefill = false, .details = details}});
  models["there"].post(call, {msg::Token{.id = 'G', .position = at + 1, .prefill = false, .details = nullptr}});
  msg::Done done{.prompt_tokens = 3, .cached_tokens = 1, .completion_tokens = 9, .finish = msg::Finish::kEos};
  done.thought_tokens = 4;
  models["there"].finish(call, {done});
  turn();
  const Json choice = json(x)["choices"][0];
  EXPECT_EQ(choice["message"]["content"], "G");
  ASSERT_EQ(choice["logprobs"]["content"].size(), 1u);
  EXPECT_EQ(choice["logprobs"]["content"][0]["bytes"], Json({'G', 'r', 0xc3}));
  EXPECT_EQ(choice["logprobs"]["content"][0]["top_logprobs"].size(), 1u);
  EXPECT_EQ(json(x)["usage"]["completion_tokens_details"]["reasoning_tokens"], 4);
  EXPECT_EQ(json(x)["usage"]["completion_tokens"], 9);
}

}  // namespace
}  // namespace weir::openai
