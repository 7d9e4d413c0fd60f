// Conversations as prompts, and the messages of chat completions.
#include "engines/forward/openai/chat_message.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engines/forward/openai/chat_text.h"
#include "msg/text_codec.h"

namespace weir::forward {
namespace {

using Json = nlohmann::ordered_json;

struct Chat {
  std::shared_ptr<const msg::TextSpec> text = make_chat_text().value();
  const msg::TextCodec& codec = *text->codec;

  // The members of the request for these messages, by way of the tokens.
  Json sent(const Json& messages, const Json& extra = Json::object()) const {
    auto prompt = codec.render_chat(messages, extra, {});
    EXPECT_TRUE(prompt) << (prompt ? "" : prompt.error().text);
    const auto ids = codec.encode(*prompt, msg::AddSpecial::kYes);
    auto members = members_of_prompt(codec.decode(ids, msg::SkipSpecial::kNo));
    EXPECT_TRUE(members) << (members ? "" : members.error().text);
    return Json::parse('{' + *members + '}');
  }
};

TEST(ChatText, EveryTextComesBackFromItsBytes) {
  Chat chat;
  std::string all;
  for (int byte = 1; byte < 128; ++byte) all += char(byte);
  for (const std::string& text : {std::string(), all, std::string("Gr\u00fc\u00dfe \u4f60\u597d \U0001f642\r\n  x")}) {
    const auto ids = chat.codec.encode(text, msg::AddSpecial::kYes);
    EXPECT_EQ(ids.size(), text.size());
    EXPECT_EQ(chat.codec.decode(ids, msg::SkipSpecial::kNo), text);
  }
}

TEST(ChatText, MessagesAreSentAsTheyAre) {
  Chat chat;
  const Json messages = Json::parse(R"j([
    {"role":"system","content":"Be \"brief\" {{ x }} {% y %} <|weir_end|> <|weir_chat|> </s>\n"},
    {"role":"user","content":"What?","name":"ann"},
    {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},
    {"role":"tool","content":"r","tool_call_id":"c1"}])j");
  const Json sent = chat.sent(messages).at("messages");
  ASSERT_EQ(sent.size(), 4u);
  EXPECT_EQ(sent[0], messages[0]);
  EXPECT_EQ(sent[1].at("content"), "What?");
  EXPECT_EQ(sent[1].at("name"), "ann");
  const Json& call = sent[2].at("tool_calls").at(0);
  EXPECT_TRUE(sent[2].at("content").is_null() || sent[2].at("content") == "");
  EXPECT_EQ(call.at("id"), "c1");
  ASSERT_TRUE(call.at("function").at("arguments").is_string()) << call.dump();
  EXPECT_EQ(Json::parse(call.at("function").at("arguments").get<std::string>()), Json::parse(R"({"a":1})"));
  EXPECT_EQ(sent[3].at("tool_call_id"), "c1");
}

TEST(ChatText, ToolsGoAlong) {
  const Json tools = Json::parse(R"([{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}])");
  EXPECT_EQ(Chat().sent(Json::parse(R"([{"role":"user","content":"a"}])"), {{"tools", tools}}).at("tools"), tools);
}

TEST(ChatText, APlainPromptIsOneMessageOfTheUser) {
  auto members = members_of_prompt("say \"hi\"\n");
  ASSERT_TRUE(members);
  EXPECT_EQ(Json::parse('{' + *members + '}'),
            Json::parse(R"({"messages":[{"role":"user","content":"say \"hi\"\n"}]})"));
}

TEST(ChatText, ClientsAddNoOtherMembers) {
  for (const char* rest : {"", "x", "[]", "{}", R"({"messages":{}})", R"({"messages":[],"model":"m"})",
                           R"({"messages":[]} 1)", R"({"messages":[],"messages":[]})",
                           R"({"messages":[],"tools":[],"tools":[]})", R"({"tools":[]})", R"({"messages":[)"}) {
    auto members = members_of_prompt("<|weir_chat|>" + std::string(rest));
    ASSERT_FALSE(members) << rest;
    EXPECT_EQ(members.error().code, base::Code::kInvalidArgument);
  }
  EXPECT_TRUE(members_of_prompt(R"(<|weir_chat|>{"messages":[]})"));
}

CompletionChunk chunk_of(std::string_view json, ToolCalls& calls) {
  auto chunk = read_chat_chunk(json, calls, {});
  EXPECT_TRUE(chunk) << (chunk ? "" : chunk.error().text);
  return chunk ? *chunk : CompletionChunk();
}

TEST(ChatMessage, DeltasAndWholeMessagesAreRead) {
  ToolCalls calls;
  auto one =
      chunk_of(R"({"choices":[{"index":0,"delta":{"role":"assistant","content":"a"},"finish_reason":null}]})", calls);
  EXPECT_EQ(one.text, "a");
  EXPECT_TRUE(one.finish.empty());
  auto whole = chunk_of(R"({"choices":[{"message":{"content":"all"},"finish_reason":"stop"}],)"
                        R"("usage":{"prompt_tokens":4,"completion_tokens":2}})",
                        calls);
  EXPECT_EQ(whole.text, "all");
  EXPECT_EQ(whole.finish, "stop");
  EXPECT_EQ(whole.prompt_tokens, 4u);
  EXPECT_EQ(whole.completion_tokens, 2u);
  EXPECT_TRUE(chunk_of(R"({"error":{"message":"no"}})", calls).error);
  EXPECT_TRUE(calls.empty());
}

TEST(ChatMessage, CallsOfToolsArePutTogether) {
  ToolCalls calls;
  for (const char* delta :
       {R"([{"index":0,"id":"x","function":{"name":"f","arguments":""}}])",
        R"([{"index":0,"function":{"arguments":"{\"a\""}}])", R"([{"index":0,"function":{"arguments":": 1}"}}])",
        R"([{"index":1,"function":{"name":"g"}}])"})
    chunk_of(R"({"choices":[{"delta":{"tool_calls":)" + std::string(delta) + "}}]}", calls);
  EXPECT_EQ(calls.text(ToolCalls::Ending::kWhole).value(),
            "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>\n"
            "<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>");
}

// How servers say which call a piece belongs to. Each time: f({"a": 1}), then f({}).
TEST(ChatMessage, CallsAreToldApartHoweverTheyAreNumbered) {
  const std::vector<std::vector<std::string>> kStreams{
      {R"([{"index":0,"id":"x","function":{"name":"f","arguments":"{\"a\""}}])",
       R"([{"index":0,"id":"x","function":{"arguments":": 1}"}}])",
       R"([{"index":0,"id":"y","function":{"name":"f"}}])"},
      {R"([{"index":0,"id":"x","function":{"name":"f","arguments":""}}])",
       R"([{"index":0,"id":null,"function":{"name":null,"arguments":"{\"a\": 1}"}}])",
       R"([{"index":0,"id":"y","function":{"name":"f","arguments":"{}"}}])"},
      {R"([{"id":"x","function":{"name":"f"}}])", R"([{"function":{"arguments":"{\"a\": 1}"}}])",
       R"([{"id":"y","function":{"name":"f"}}])", R"([{"id":"y","function":{"arguments":"{}"}}])"},
      {R"([{"function":{"name":"f","arguments":"{\"a\": 1}"}}])", R"([{"function":{"name":"f","arguments":"{}"}}])"},
      {R"([{"id":"x","function":{"name":"f","arguments":"{\"a\": 1}"}},{"id":"y","function":{"name":"f"}}])"}};
  for (const auto& stream : kStreams) {
    ToolCalls calls;
    for (const auto& delta : stream) chunk_of(R"({"choices":[{"delta":{"tool_calls":)" + delta + "}}]}", calls);
    EXPECT_EQ(calls.text(ToolCalls::Ending::kWhole).value(),
              "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>\n"
              "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>")
        << stream.front();
  }
}

TEST(ChatMessage, CallsHaveBounds) {
  ToolCalls many, far, large, broken;
  for (size_t i = 0; i < ToolCalls::kMost; ++i) ASSERT_TRUE(many.add({i, "", "f", "{}"}));
  EXPECT_FALSE(many.add({ToolCalls::kMost, "", "f", "{}"}));
  EXPECT_FALSE(many.add({{}, "", "f", "{}"}));
  EXPECT_FALSE(far.add({1, "", "f", "{}"}));
  ASSERT_TRUE(large.add({0, "", "f", std::string(ToolCalls::kMostText - 1, 'x')}));
  EXPECT_FALSE(large.add({0, "", "", "xx"}));
  for (const char* arguments : {"{", "[]", "7", "{} {}"}) {
    ToolCalls calls;
    ASSERT_TRUE(calls.add({0, "", "f", arguments}));
    EXPECT_FALSE(calls.text(ToolCalls::Ending::kWhole)) << arguments;
    EXPECT_EQ(calls.text(ToolCalls::Ending::kCut).value(), "");
  }
}

TEST(ChatMessage, AnythingElseIsRefused) {
  for (const char* json :
       {"", "[]", R"({"choices":[{},{}]})", R"({"choices":[{"delta":{"content":1}}]})",
        R"({"choices":[{"delta":{"tool_calls":{}}}]})", R"({"choices":[{"delta":{"tool_calls":[{"index":-1}]}}]})",
        R"({"usage":{"prompt_tokens":-1}})", R"({"choices":[]} x)"}) {
    ToolCalls calls;
    auto chunk = read_chat_chunk(json, calls, {});
    ASSERT_FALSE(chunk) << json;
    EXPECT_EQ(chunk.error().code, base::Code::kInternal);
  }
}

TEST(ChatMessage, ALengthThatNobodyGaveIsTheOrigins) {
  msg::Call call;
  call.generation = std::make_unique<msg::Generation>();
  call.generation->append = {1, 2, 3};
  call.generation->max_tokens = 5;
  Options options;
  options.model = "m";
  const auto written = [&] {
    std::string all;
    for (const auto& piece : write_chat(call, {base::Bytes::copy_of(R"("messages":[])")}, options, 100))
      all += piece.view();
    return Json::parse(all);
  };
  const auto asked = written();
  EXPECT_EQ(asked.at("max_tokens"), 5);
  EXPECT_EQ(asked.at("stream"), true);
  options.token_limit = TokenLimit::kMaxCompletionTokens;
  EXPECT_EQ(written().at("max_completion_tokens"), 5);
  EXPECT_FALSE(written().contains("max_tokens"));
  call.generation->max_tokens = 97;
  EXPECT_FALSE(written().contains("max_tokens"));
}

}  // namespace
}  // namespace weir::forward
