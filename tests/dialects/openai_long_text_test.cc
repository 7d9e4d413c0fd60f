// Long texts, which workers make tokens of.
#include "openai_bench.h"
#include "support/held_workers.h"

namespace weir::openai {
namespace {

using base::Code;

class LongTexts : public OpenaiBench {
 protected:
  LongTexts() {
    models.add(support::text_spec("long", 100'000));
    bus.employ(workers);
  }
  Opened post(std::string path, Json body) {
    body["model"] = "long";
    return open("POST", std::move(path), body.dump());
  }
  support::ScriptedInbox& longs() { return models["long"]; }

  support::HeldWorkers workers;
  const std::string text = std::string(20'000, 'x');
  const Json messages = {{{"role", "user"}, {"content", text}}};
};

TEST_F(LongTexts, HoldUpNobodyElse) {
  auto x = post("/v1/chat/completions", {{"messages", messages}});
  ASSERT_EQ(workers.held.size(), 1u);
  EXPECT_GT(workers.held[0]->bytes, text.size());
  EXPECT_TRUE(longs().held.empty());
  auto y = complete({});
  ASSERT_EQ(inbox().held.size(), 1u) << "short ones are tokenized here";
  voice().end();
  turn();
  EXPECT_EQ(y->response.status, 200);
  workers.work();
  turn();
  ASSERT_EQ(longs().held.size(), 1u);
  EXPECT_EQ(support::prompt_of(*longs().held[0]), "user:" + text + "\nassistant:");
  Voice v{longs(), longs().held[0]};
  v.say("ok");
  v.end();
  turn();
  EXPECT_EQ(json(x)["choices"][0]["message"]["content"], "ok");
  EXPECT_EQ(json(x)["usage"]["prompt_tokens"], 20'016);
}

TEST_F(LongTexts, EveryEndpointSendsThemToTheWorkers) {
  auto completion = post("/v1/completions", {{"prompt", text}, {"echo", true}, {"stream", true}});
  auto embedding = post("/v1/embeddings", {{"input", text}});
  auto tokenized = post("/tokenize", {{"prompt", text}});
  auto chat_tokenized = post("/tokenize", {{"messages", messages}});
  auto detokenized = post("/detokenize", {{"tokens", std::vector<int>(20'000, 'y')}});
  EXPECT_EQ(workers.held.size(), 5u);
  EXPECT_TRUE(longs().held.empty());
  workers.work();
  turn();
  EXPECT_EQ(longs().held.size(), 2u);
  EXPECT_EQ(json(tokenized)["count"], 20'000);
  EXPECT_EQ(json(chat_tokenized)["count"], 20'016);
  EXPECT_EQ(json(detokenized)["prompt"], std::string(20'000, 'y'));
}

TEST_F(LongTexts, WhatIsWrongWithThemIsSaidAsAlways) {
  Json bad = {{{"role", "user"}, {"content", text}}, {{"role", 7}}};
  auto x = post("/v1/chat/completions", {{"messages", bad}});
  auto y = post("/v1/embeddings", {{"input", {text, ""}}});
  auto z = post("/detokenize", {{"tokens", std::vector<int>(20'000, 999)}});
  auto busy = post("/v1/completions", {{"prompt", text}});
  ASSERT_EQ(workers.held.size(), 4u);
  auto* last = workers.held.back();
  workers.held.pop_back();
  workers.work();
  workers.held.push_back(last);
  workers.refuse(base::try_again(Code::kResourceExhausted, "too many"));
  turn();
  EXPECT_EQ(refusal(x), "400 invalid_request_error - messages");
  EXPECT_EQ(refusal(y), "400 invalid_request_error - input");
  EXPECT_EQ(refusal(z), "400 invalid_request_error - tokens");
  EXPECT_EQ(busy->response.status, 429);
}

TEST_F(LongTexts, AClientMayLeaveAtAnyTime) {
  auto before = post("/v1/chat/completions", {{"messages", messages}, {"stream", true}});
  ASSERT_EQ(workers.held.size(), 1u);
  before.reset();
  EXPECT_TRUE(workers.held[0]->cancelled.load());
  EXPECT_EQ(workers.pokes, 1);
  workers.work();  // it was at it already
  turn();
  EXPECT_TRUE(longs().held.empty());
  auto behind = post("/v1/chat/completions", {{"messages", messages}, {"stream", true}});
  workers.work();
  turn();
  ASSERT_EQ(longs().held.size(), 1u);
  behind.reset();
  EXPECT_TRUE(longs().held[0]->cancelled.load());
}

TEST_F(LongTexts, AModelIsThereUntilTheAnswerThoughItIsUnloadedMeanwhile) {
  auto x = post("/v1/completions", {{"prompt", text}});
  auto served = models.catalog->models.at("long").versions.at("1");
  bus.publish(std::make_shared<const bus::Catalog>());
  EXPECT_FALSE(served->idle());
  workers.work();
  turn();
  ASSERT_EQ(longs().held.size(), 1u);
  EXPECT_FALSE(served->idle());
  Voice{longs(), longs().held[0]}.end();
  turn();
  EXPECT_EQ(x->response.status, 200);
  EXPECT_TRUE(served->idle());
}

}  // namespace
}  // namespace weir::openai
