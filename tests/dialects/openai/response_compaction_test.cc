// POST /v1/responses/compact, and the items that it makes.
#include "dialects/openai/responses/compaction.h"
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

TEST_F(Compaction, WhatIsWrongIsSaid) {
  EXPECT_EQ(refusal(compact(Json::object())), "400 input: input: it is missing");
  EXPECT_EQ(refusal(compact({{"input", 1}})), "400 input: input: expected a text or a list of items");
  EXPECT_EQ(refusal(compact({{"input", "a"}, {"strem", true}})), "400 strem: strem: no such parameter");
  EXPECT_EQ(compact({{"input", "a"}, {"model", "none"}})->response.status, 404);
  EXPECT_EQ(refusal(ask({{"input", Json::array({{{"type", "compaction"}, {"encrypted_content", "YQ=="}}})}})),
            "400 input: input[0]: its encrypted_content was not made here");
  auto x = compact({{"input", "a"}});
  answer("");
  EXPECT_EQ(x->response.status, 500);
}

TEST(Summary, IsReadAsItWasSealed) {
  EXPECT_EQ(responses::summary_in(responses::sealed_summary("a€b")), "a€b");
  for (const char* wrong : {"", "x", "!", "YWJj"}) EXPECT_FALSE(responses::summary_in(wrong)) << wrong;
}

}  // namespace
}  // namespace weir::openai
