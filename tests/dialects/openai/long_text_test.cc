// Long texts, which workers make tokens of.
#include <algorithm>

#include "base/extra_work.h"
#include "bench.h"
#include "support/cpu_time.h"
#include "support/fake_offload.h"
#include "support/held_workers.h"
#include "support/sanitizers.h"
#include "text/rendering_budget.h"

namespace weir::openai {
namespace {

using base::Code;

class LongTexts : public OpenaiBench {
 protected:
  LongTexts() {
    models.add(support::text_spec("long", 100'000));
    bus.set_worker_pool(workers);
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
  scripted().end();
  turn();
  EXPECT_EQ(y->response.status, 200);
  workers.work();
  turn();
  ASSERT_EQ(longs().held.size(), 1u);
  EXPECT_EQ(support::prompt_of(*longs().held[0]), "user:" + text + "\nassistant:");
  ScriptedAnswer v{longs(), longs().held[0]};
  v.emit("ok");
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

TEST_F(LongTexts, AFormThatIsNotCompiledHasATurnOfItsOwnAtTheWorkers) {
  auto extra = [&] {
    EXPECT_EQ(workers.held.size(), 1u);
    return workers.held.empty() ? 0 : dynamic_cast<base::ExtraWork&>(*workers.held[0]->task).extra_work();
  };
  auto work = [&] { workers.work(), turn(); };
  auto ask = [&](const std::string& prompt, const char* regex) {
    return post("/v1/completions", {{"prompt", prompt}, {"structured_outputs", {{"regex", regex}}}});
  };
  auto fresh = ask(text, "[ab]+");
  EXPECT_EQ(extra(), 0u);
  work();
  EXPECT_EQ(extra(), base::kCompileWork);
  EXPECT_TRUE(longs().held.empty());
  work();
  EXPECT_EQ(longs().held.size(), 1u);
  auto known = ask(text, "[ab]+");
  EXPECT_EQ(extra(), 0u);
  work();
  EXPECT_EQ(longs().held.size(), 2u);
  auto brief = ask("x", "[cd]+");
  EXPECT_EQ(extra(), base::kCompileWork) << "the prompt is made here";
  work();
  EXPECT_EQ(longs().held.size(), 3u);
  auto wrong = ask(text, "(");
  work(), work();
  EXPECT_EQ(wrong->response.status, 400);
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
  EXPECT_EQ(error(x), "400 invalid_request_error - messages");
  EXPECT_EQ(error(y), "400 invalid_request_error - input");
  EXPECT_EQ(error(z), "400 invalid_request_error - tokens");
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
  ScriptedAnswer{longs(), longs().held[0]}.end();
  turn();
  EXPECT_EQ(x->response.status, 200);
  EXPECT_TRUE(served->idle());
}

// --- bodies that are long to read ------------------------------------------------------------------------------------

class LongBodies : public LongTexts {
 protected:
  LongBodies() { options.offload = &offload; }

  support::FakeOffload offload;
  const std::string huge = std::string(wire::kLongBody + 1, 'x');
};

TEST_F(LongBodies, AreReadByWorkersInEveryEndpoint) {
  auto completion = post("/v1/completions", {{"prompt", huge}, {"truncate_prompt_tokens", 5}});
  auto embedding = post("/v1/embeddings", {{"input", huge}});
  auto tokenized = post("/tokenize", {{"prompt", huge}});
  auto detokenized = post("/detokenize", {{"tokens", std::vector<int>(huge.size() / 3, 121)}});
  EXPECT_EQ(offload.waiting(), 4u);
  EXPECT_TRUE(workers.held.empty());
  offload.work();
  EXPECT_EQ(workers.held.size(), 4u) << "each is a text to tokenize now";
  workers.work();
  turn();
  EXPECT_EQ(json(tokenized)["count"], huge.size());
  EXPECT_EQ(json(detokenized)["prompt"], std::string(huge.size() / 3, 'y'));
}

TEST_F(LongBodies, WhatIsWrongWithThemIsSaidAsAlways) {
  auto x = post("/v1/completions", {{"prompt", huge}, {"n", -1}});
  auto y = open("POST", "/v1/chat/completions", "{\"messages\":\"" + huge);
  auto z = post("/v1/completions", {{"prompt", huge}, {"model", "m"}, {"stream", 7}});
  offload.work_one();
  EXPECT_EQ(error(x), "400 invalid_request_error - n");
  offload.work_one();
  EXPECT_EQ(y->response.status, 400);
  offload.fail(base::try_again(Code::kUnavailable, "ends"));
  EXPECT_EQ(z->response.status, 503);
  offload.refusal = base::try_again(Code::kResourceExhausted, "full");
  EXPECT_EQ(post("/v1/completions", {{"prompt", huge}})->response.status, 429);
}

TEST_F(LongBodies, AClientThatLeavesTakesItsReadingAlong) {
  auto x = post("/v1/completions", {{"prompt", huge}});
  x.reset();
  EXPECT_EQ(offload.cancelled, 1u);
  EXPECT_EQ(offload.waiting(), 0u);
}

// Bodies of other APIs become documents, which is more work than their bytes say.
TEST_F(LongBodies, ThatAreTranslatedAreReadByWorkersSooner) {
  const std::string some(20'000, 'x');
  const Json said = {{{"role", "user"}, {"content", some}}};
  const std::vector<int> ids(10'000, 1);
  const std::pair<const char*, Json> bodies[] = {
      {"/api/chat", {{"messages", said}}},
      {"/api/generate", {{"prompt", "a"}, {"context", ids}}},
      {"/api/embed", {{"input", some}}},
      {"/api/embeddings", {{"prompt", some}}},
      {"/v1/messages", {{"messages", said}, {"max_tokens", 5}}},
      {"/v1/messages/count_tokens", {{"messages", said}}},
      {"/v1/responses", {{"input", some}}},
      {"/v1/embed", {{"texts", {some}}}},
      {"/v2/embed", {{"texts", {some}}, {"embedding_types", {"float"}}}},
      {"/embed", {{"inputs", some}}},
      {"/pooling", {{"input", some}}},
      {"/embedding", {{"content", some}}},
      {"/generate", {{"input_ids", ids}}},
      {"/generate", {{"inputs", some}}},
      {"/completion", {{"prompt", ids}}},
      {"/tokenize", {{"content", some}}},
  };
  size_t sent = 0;
  for (const auto& [path, body] : bodies) {
    auto x = post(path, body);
    EXPECT_EQ(offload.sent, ++sent) << path << ' ' << x->sent;
    Json named = body;
    named["model"] = "long";
    EXPECT_EQ(offload.bytes, wire::work_of_document(named.dump().size())) << path;
    x.reset();
  }
  auto here = post("/v1/chat/completions", {{"messages", said}});
  EXPECT_EQ(offload.sent, sent) << "is read once";
  EXPECT_EQ(workers.held.size(), 1u);
  workers.refuse(base::try_again(Code::kResourceExhausted, "no"));
  turn();
}

#if defined(WEIR_ASAN) || defined(WEIR_TSAN)
constexpr double kMostOfReading = 0.25;
#else
constexpr double kMostOfReading = 0.025;  // seconds of CPU time, in a debug build
#endif
constexpr double kMostTimesParsing = 20;  // that of parsing the body alone: a slow machine takes longer for both

// Values of two bytes each.
TEST_F(LongBodies, ThatAreJustReadOnTheShardTakeFewMilliseconds) {
  const size_t most = wire::kLongBody / wire::work_of_document(1) - 100;
  std::string list = "[1";
  while (list.size() + 4 < most) list += ",1";
  list += ']';
  std::string objects = "[{}";
  while (objects.size() + 4 < most) objects += ",{}";
  objects += ']';
  const std::pair<const char*, std::string> bodies[] = {
      {"/generate", R"({"model":"long","input_ids":)" + list + '}'},
      {"/generate", R"({"model":"long","text":"a","sampling_params":{"custom_params":)" + objects + "}}"},
      {"/api/generate", R"({"model":"long","prompt":"a","context":)" + list + '}'},
      {"/v1/responses", R"({"model":"long","input":)" + objects + '}'},
      {"/v1/messages", R"({"model":"long","max_tokens":1,"messages":)" + objects + '}'},
  };
  for (const auto& one : bodies) {
    const double parsing = support::cpu_of([&] { EXPECT_TRUE(Json::parse(one.second).is_object()); });
    EXPECT_LT(support::cpu_of([&] {
                auto x = open("POST", one.first, one.second);
                if (!workers.held.empty()) workers.refuse(base::try_again(Code::kResourceExhausted, "no"));
                turn();
              }),
              std::max(kMostOfReading, kMostTimesParsing * parsing))
        << one.first;
  }
  EXPECT_EQ(offload.sent, 0u);
}

// --- short texts that are much work ----------------------------------------------------------------------------------

class SlowTemplates : public LongTexts {
 protected:
  SlowTemplates() {
    auto spec = support::text_spec("slow", 100'000);
    auto text = std::make_shared<msg::TextSpec>(*spec.text);
    auto processor = std::make_shared<text::Processor>(*support::byte_processor());
    // As some models' templates do: for each message all others are looked at.
    processor->chat = *jinja::Template::parse(
        "{% for m in messages %}{% set n = namespace(c=0) %}{% for o in messages %}{% if o.role == m.role %}"
        "{% set n.c = n.c + 1 %}{% endif %}{% endfor %}{{ n.c }},{% endfor %}");
    text->codec = processor;
    spec.text = text;
    models.add(spec);
    bus.publish(models.catalog);
  }
  // About 30 bytes each.
  Opened ask(size_t many) {
    Json list = Json::array();
    for (size_t i = 0; i < many; ++i) list.push_back({{"role", "a"}, {"content", ""}});
    const std::string body = Json{{"model", "slow"}, {"messages", list}}.dump();
    EXPECT_LT(body.size(), bus::kShortText);
    return open("POST", "/v1/chat/completions", body);
  }
  uint64_t extra_work() const {
    EXPECT_EQ(workers.held.size(), 1u);
    return workers.held.empty() ? 0 : dynamic_cast<base::ExtraWork&>(*workers.held[0]->task).extra_work();
  }
};

TEST_F(SlowTemplates, AreRenderedByWorkersWhereTheyTakeLong) {
  auto x = ask(5);
  EXPECT_EQ(workers.held.size(), 0u);
  ASSERT_EQ(models["slow"].held.size(), 1u) << "here";
  EXPECT_EQ(support::prompt_of(*models["slow"].held[0]), "5,5,5,5,5,");
  auto y = ask(250);
  ASSERT_EQ(workers.held.size(), 1u);
  EXPECT_EQ(models["slow"].held.size(), 1u);
  EXPECT_EQ(extra_work(), 0u);
  workers.work();
  turn();
  EXPECT_EQ(models["slow"].held.size(), 1u);
  EXPECT_EQ(extra_work(), text::kRenderingWork) << "longer than to read a text of its length: among the forms";
  workers.work();
  turn();
  ASSERT_EQ(models["slow"].held.size(), 2u);
  EXPECT_EQ(support::prompt_of(*models["slow"].held[1]).substr(0, 8), "250,250,");
}

// Relative to a worker's first turn, which has ten times the steps: a busy machine is slow for both. A shard that
// rendered on would take ten such turns and more.
TEST_F(SlowTemplates, TakeFewOfTheirStepsOnTheShard) {
  constexpr int kTimes = 5;
  constexpr double kMostOfATurn = 2;  // a tenth is for the template; all else of the request took 0.7 of one at most
  const auto refuse = [&] {
    workers.refuse(base::try_again(Code::kResourceExhausted, "no"));
    turn();
  };
  double workers_turn = 1e9;  // the shortest
  for (int i = 0; i < kTimes; ++i) {
    auto x = ask(250);
    ASSERT_EQ(workers.held.size(), 1u);
    workers_turn = std::min(workers_turn, support::cpu_of([&] { workers.held[0]->task->run(); }, 1));
    refuse();
  }
  for (size_t many : {60, 120, 250}) {
    const double shard = support::cpu_of(
        [&] {
          auto x = ask(many);
          refuse();
        },
        kTimes);
    EXPECT_LT(shard, kMostOfATurn * workers_turn) << many;
  }
}

TEST_F(LongTexts, GoOnBehalfOfTheirTenant) {
  auto x = post("/v1/completions", {{"prompt", text}});
  ASSERT_EQ(workers.held.size(), 1u);
  auto call = workers.held[0];
  workers.work();
  turn();
  ASSERT_EQ(longs().held.size(), 1u);
  EXPECT_NE(longs().held[0]->tenant, 0u);
  auto y = post("/v1/completions", {{"prompt", text}});
  ASSERT_EQ(workers.held.size(), 1u);
  EXPECT_EQ(workers.held[0]->tenant, longs().held[0]->tenant);
  (void)call;
  workers.work();
  turn();
}

TEST_F(LongTexts, ArgumentsThatAreMadeToBeSlowAreRefused) {
  std::string arguments = "{";
  for (int i = 0; i < 100'000; ++i) arguments += (i ? ",\"k" : "\"k") + std::to_string(i) + "\":1";
  arguments += "}";
  Json call = {{"type", "function"}, {"function", {{"name", "f"}, {"arguments", arguments}}}};
  auto x = post("/v1/chat/completions",
                {{"messages", Json::array({{{"role", "assistant"}, {"tool_calls", Json::array({call})}}})}});
  ASSERT_EQ(workers.held.size(), 1u);
  EXPECT_LT(support::cpu_of([&] { workers.work(); }, 1), 2);
  turn();
  EXPECT_EQ(error(x), "400 invalid_request_error - messages");
  EXPECT_NE(x->sent.find("messages[0].tool_calls[0].function.arguments: "), std::string::npos) << x->sent;
}

}  // namespace
}  // namespace weir::openai
