// POST /v1/responses/compact, and the items that it makes.
#include "dialects/openai/responses/compaction.h"
#include "dialects/openai/responses/input.h"
#include "responses_bench.h"

namespace weir::openai {
namespace {

class Compaction : public Responses {
 protected:
  Opened compact(Json body) {
    body.emplace("model", "qwen");
    return open("POST", "/v1/responses/compact", body.dump());
  }
  std::string asked(size_t i = 0) { return support::prompt_of(*models["qwen"].held.at(i)); }
  void answer(const std::string& summary) {
    ScriptedAnswer writes{models["qwen"], models["qwen"].held.at(0)};
    writes.emit(summary);
    writes.end();
    turn();
  }
  static Json said(const std::string& role, const std::string& text) { return {{"role", role}, {"content", text}}; }
};

TEST_F(Compaction, TheUsersMessagesStayAndTheRestIsASummary) {
  auto x = compact({{"instructions", "be"}, {"input", {said("user", "a"), said("assistant", "b"), said("user", "c")}}});
  ASSERT_EQ(models["qwen"].held.size(), 1u) << x->sent;
  EXPECT_TRUE(asked().starts_with("system:be\nuser:a\nassistant:b\nuser:c\nuser:Summarize")) << asked();
  answer("<think>hm</think>b was said");
  const Json made = json(x);
  EXPECT_EQ(made["object"], "response.compaction");
  ASSERT_EQ(made["output"].size(), 3u) << made;
  EXPECT_EQ(made["output"][0]["content"][0], Json({{"type", "input_text"}, {"text", "a"}}));
  EXPECT_EQ(made["output"][1]["content"][0]["text"], "c");
  EXPECT_EQ(made["output"][2]["type"], "compaction");
  EXPECT_GT(made["usage"]["output_tokens"], 0);
  EXPECT_EQ(stored.size(), 0u);
  Json next = made["output"];
  next.push_back(said("user", "d"));
  auto y = ask({{"input", next}});
  EXPECT_EQ(prompt(), "user:a\n\nc\nassistant:b was said\nuser:d\nassistant:");
}

TEST_F(Compaction, WhatAResponseWentOnBehindIsPartOfIt) {
  const std::string id = say({{"input", "first"}});
  auto x = compact({{"previous_response_id", id}});
  ASSERT_EQ(models["qwen"].held.size(), 1u) << x->sent;
  EXPECT_TRUE(asked().starts_with("user:first\nassistant:ab\nuser:Summarize")) << asked();
  answer("short");
  ASSERT_EQ(json(x)["output"].size(), 2u) << x->sent;
  EXPECT_EQ(json(x)["output"][0]["content"][0]["text"], "first");
}

// Behind a user's message the question would be a second one of the user.
TEST_F(Compaction, ATemplateThatWantsTurnsHasThem) {
  constexpr const char* kTurns =
      "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
      "{{ raise_exception('Conversation roles must alternate') }}{% endif %}{% endfor %}";
  models.add(support::tools_spec("turns", kTurns));
  const Json summary = {{"type", "compaction"}, {"encrypted_content", responses::sealed_summary("short")}};
  for (const Json& input : {Json::array({said("user", "a")}), Json::array({said("user", "a"), said("user", "b")}),
                            Json::array({summary}), Json::array({said("user", "a"), summary, said("user", "b")})}) {
    auto x = compact({{"model", "turns"}, {"input", input}});
    ASSERT_EQ(models["turns"].held.size(), 1u) << x->sent;
    const std::string prompt = support::prompt_of(*models["turns"].held[0]);
    EXPECT_NE(prompt.find("\n\nSummarize"), prompt.npos) << prompt;
    ScriptedAnswer writes{models["turns"], models["turns"].held[0]};
    writes.emit("so");
    writes.end();
    turn();
    EXPECT_EQ(json(x)["output"].back()["type"], "compaction");
  }
  auto next = ask({{"model", "turns"}, {"input", Json::array({summary, said("user", "b")})}});
  ASSERT_EQ(models["turns"].held.size(), 1u) << next->sent;
  EXPECT_EQ(support::prompt_of(*models["turns"].held[0]), "user:short\n\nb\nassistant:");
}

TEST_F(Compaction, WhatIsWrongIsSaid) {
  EXPECT_EQ(refusal(compact(Json::object())), "400 input: input: it is missing");
  EXPECT_EQ(refusal(compact({{"model", nullptr}, {"input", "a"}})), "400 model: model: it is missing");
  EXPECT_EQ(refusal(compact({{"input", 1}})), "400 input: input: expected a text or a list of items");
  EXPECT_EQ(refusal(compact({{"input", "a"}, {"strem", true}})), "400 strem: strem: no such parameter");
  EXPECT_EQ(compact({{"input", "a"}, {"model", "none"}})->response.status, 404);
  EXPECT_EQ(refusal(ask({{"input", Json::array({{{"type", "compaction"}, {"encrypted_content", "YQ=="}}})}})),
            "400 input: input[0]: its encrypted_content was not made here");
  auto x = compact({{"input", "a"}});
  answer("");
  EXPECT_EQ(x->response.status, 500);
}

OrderedJson many_messages(size_t count, size_t bytes) {
  const OrderedJson one = {{"role", "user"}, {"content", std::string(bytes, 'a')}};
  return OrderedJson::array_t(count, one);
}

// Copying what is joined so far for each message would take some ten seconds.
TEST(Summary, ManyMessagesBeforeItAreJoinedInOnePass) {
  constexpr size_t kMessages = 16'000, kBytes = 256;
  OrderedJson input = many_messages(kMessages, kBytes), chat = OrderedJson::object();
  input.push_back({{"type", "compaction"}, {"encrypted_content", responses::sealed_summary("short")}});
  Request request;
  const auto began = std::chrono::steady_clock::now();
  ASSERT_TRUE(responses::read_input({{"input", input}}, {}, chat, request).ok());
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(2));
  ASSERT_EQ(chat["messages"].size(), 2u);
  const std::string joined = chat["messages"][0]["content"];
  EXPECT_EQ(joined.size(), kMessages * (kBytes + 2) - 2);
  EXPECT_EQ(joined.substr(kBytes - 1, 4), "a\n\na");
  EXPECT_EQ(chat["messages"][1], OrderedJson({{"role", "assistant"}, {"content", "short"}}));
}

TEST(Summary, WhatIsJoinedEndsWhereTheUsersTextsDo) {
  const OrderedJson said = OrderedJson::parse(R"([{"role":"user","content":"a"},{"role":"assistant","content":"b"},
      {"role":"user","content":[{"type":"input_image","image_url":"data:,"}]},
      {"role":"user","content":"c"},{"role":"user","content":"d"}])");
  for (size_t from : {0, 3, 4, 5}) {
    OrderedJson input = OrderedJson::array(), chat = OrderedJson::object();
    for (size_t i = from; i < said.size(); ++i) input.push_back(said[i]);
    input.push_back({{"type", "compaction"}, {"encrypted_content", responses::sealed_summary("short")}});
    Request request;
    ASSERT_TRUE(responses::read_input({{"input", input}}, {}, chat, request).ok());
    const OrderedJson& made = chat["messages"];
    ASSERT_EQ(made.size(), from == 0 ? 5u : from == 5 ? 1u : 2u) << made;
    EXPECT_EQ(made.back()["role"], from == 5 ? "user" : "assistant");
    if (from == 5) continue;
    EXPECT_EQ(made[made.size() - 2]["content"], from == 4 ? "d" : "c\n\nd");
  }
}

TEST(Summary, ItemsAreCountedBeforeTheyAreRead) {
  const OrderedJson many = many_messages(20'000, 1);
  const std::string why = "at most 16384 items, with those of the conversation";
  const auto refused = [](const OrderedJson& body, const responses::StoredView& view) {
    OrderedJson chat = OrderedJson::object();
    Request request;
    const std::string text = responses::read_input(body, view, chat, request).status.text;
    EXPECT_EQ(chat["messages"].size(), 0u);
    return text;
  };
  EXPECT_EQ(refused({{"input", many}}, {}), "input: " + why);
  responses::StoredView view;
  const std::string list = many.dump();
  view.conversation = base::Bytes::copy_of(std::string_view(list).substr(1, list.size() - 2));
  EXPECT_EQ(refused({{"input", "so"}}, view), "conversation: " + why);
}

// The oldest go, up to a message of the user, but instructions stay.
TEST(Summary, TheOldestItemsGoWhereTheRequestSaysSo) {
  OrderedJson many = many_messages(20'000, 1);
  many[0] = {{"role", "system"}, {"content", "be"}};
  many[3617] = {{"type", "function_call"}, {"call_id", "1"}, {"name", "f"}, {"arguments", "{}"}};
  many[3618] = {{"type", "function_call_output"}, {"call_id", "1"}, {"output", "7"}};
  many[3619] = {{"role", "user"}, {"content", "first"}};
  const std::string list = many.dump();
  responses::StoredView view;
  view.conversation = base::Bytes::copy_of(std::string_view(list).substr(1, list.size() - 2));
  OrderedJson chat = OrderedJson::object();
  Request request;
  request.overlong = Overlong::kTurnsGo;
  EXPECT_EQ(responses::read_input({{"input", "so"}}, view, chat, request).status.text, "");
  const OrderedJson& made = chat["messages"];
  ASSERT_EQ(made.size(), 16'383u);
  EXPECT_EQ(made[0]["content"], "be");
  EXPECT_EQ(made[1]["content"], "first");
  EXPECT_EQ(made.back()["content"], "so");
}

TEST(Summary, IsReadAsItWasSealed) {
  EXPECT_EQ(responses::summary_in(responses::sealed_summary("a€b")), "a€b");
  for (const char* wrong : {"", "x", "!", "YWJj"}) EXPECT_FALSE(responses::summary_in(wrong)) << wrong;
}

}  // namespace
}  // namespace weir::openai
