// A whole answer is charged while it grows: log-probabilities are many times the text.
#include "responses_bench.h"
#include "support/counted_slabs.h"
#include "wire/codec.h"

namespace weir::openai {
namespace {

using base::MemoryKind;

class OpenaiMemory : public OpenaiBench {
 protected:
  // One client over HTTP/1.
  struct Client {
    Client(wire::Router& router, base::SlabSource& slabs) : env{router, slabs, limits} {}
    void ask(std::string_view body, const std::string& path = "/v1/chat/completions") {
      support::feed(*h1, "POST " + path +
                             " HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
                             "Content-Length: " +
                             std::to_string(body.size()) + "\r\n\r\n" + std::string(body));
    }
    std::string answer() { return support::take_output(*h1); }
    support::FakeWire wire;
    wire::Limits limits;
    wire::PeerInfo peer{"127.0.0.1:5000", wire::Security::kCleartext};
    wire::CodecEnv env;
    std::unique_ptr<wire::Codec> h1 = wire::make_h1(env, wire, peer);
  };
  OpenaiMemory() {
    options.stored = &stored;
    openai = std::make_unique<Openai>(bus, router, load, options);
  }
  // A token with its 20 best, from the model to the first choice.
  void emit(int tokens) {
    std::vector<msg::TokenLogprob> top;
    for (uint32_t id = 0; id < 20; ++id) top.push_back({'a' + id, -float(id)});
    ScriptedAnswer model = scripted();
    for (int i = 0; i < tokens; ++i) model.token('A', likely(-1, top));
    turn();
  }

  static constexpr const char* kAsk =
      R"({"model":"m","messages":[{"role":"user","content":"hi"}],"logprobs":true,"top_logprobs":20})";
  support::CountedSlabs slabs{1 << 20};
  responses::StoredResponses stored{std::chrono::minutes(10), 1 << 20};
};

TEST_F(OpenaiMemory, LogProbabilitiesAreChargedUntilTheAnswerIsOut) {
  Client c(router, slabs);
  c.ask(kAsk);
  turn();
  emit(50);
  const uint64_t gathered = slabs.memory.held(MemoryKind::kAnswers);
  EXPECT_GE(gathered, 40'000u);
  scripted().end();
  turn();
  EXPECT_LT(slabs.memory.held(MemoryKind::kAnswers), gathered * 3 / 2) << "the answer alone is left";
  EXPECT_EQ(c.answer().substr(0, 15), "HTTP/1.1 200 OK");
  EXPECT_EQ(slabs.memory.held(), 0u);
  c.h1->closed();
}

TEST_F(OpenaiMemory, WithoutRoomTheAnswerIs503AndTheModelIsToldToStop) {
  Client c(router, slabs);
  c.ask(kAsk);
  turn();
  slabs.memory.add(MemoryKind::kSlabs, (1 << 20) - 40'000);
  emit(50);
  EXPECT_TRUE(call()->cancelled.load());
  std::string out = c.answer();
  EXPECT_EQ(out.substr(0, 12), "HTTP/1.1 503");
  EXPECT_NE(out.find("there is no memory for the answer"), out.npos);
  EXPECT_EQ(slabs.memory.held(), (1u << 20) - 40'000);
  c.h1->closed();
}

TEST_F(OpenaiMemory, AStreamThatCannotBeStoredGoesOnWithoutItsCopy) {
  Client c(router, slabs);
  c.ask(R"({"store":true,"stream":true,)" + std::string(kAsk + 1));
  turn();
  emit(50);
  (void)c.answer();
  EXPECT_GE(slabs.memory.held(MemoryKind::kAnswers), 40'000u) << "the copy";
  const uint64_t rest = (1 << 20) - slabs.memory.held();
  slabs.memory.add(MemoryKind::kSlabs, rest);
  emit(50);
  (void)c.answer();
  EXPECT_EQ(slabs.memory.held(MemoryKind::kAnswers), 0u);
  scripted().end();
  turn();
  EXPECT_NE(c.answer().find("[DONE]"), std::string::npos);
  EXPECT_EQ(stored.size(), 0u);
  c.h1->closed();
}

TEST_F(OpenaiMemory, AnAnswerForWhoseCopyThereIsNoRoomIsNotStored) {
  support::CountedSlabs some{5 << 20};
  Client c(router, some);
  c.ask(R"({"store":true,)" + std::string(kAsk + 1));
  turn();
  emit(3500);
  ASSERT_GE(some.memory.held(MemoryKind::kAnswers), uint64_t(5 << 20) / 2) << "no room for as much again";
  scripted().end();
  turn();
  const std::string out = c.answer();
  EXPECT_EQ(out.substr(0, 12), "HTTP/1.1 200");
  EXPECT_TRUE(out.ends_with("\r\n0\r\n\r\n"));
  EXPECT_EQ(stored.size(), 0u);
  EXPECT_EQ(some.memory.held(), 0u);
  c.h1->closed();
}

// Answers in one piece, of each API; of a client that does not read.
class SlowReaders : public OpenaiMemory, public testing::WithParamInterface<std::pair<const char*, const char*>> {
 protected:
  // Returns what was charged before the end.
  uint64_t finish(Client& c) {
    c.ask(GetParam().second, GetParam().first);
    turn();
    ScriptedAnswer model = scripted();
    if (GetParam().first == std::string_view("/v1/messages"))
      model.emit(std::string(400'000, '\x01'));
    else
      emit(5000);
    turn();
    const uint64_t gathered = some.memory.held(MemoryKind::kAnswers);
    model.done();
    turn();
    return gathered;
  }

  support::CountedSlabs some{64 << 20};
};

TEST_P(SlowReaders, DoNotHaveTheTextHeldTwice) {
  constexpr uint64_t kWritten = (1 << 20) + (512 << 10);  // ahead of the peer
  Client c(router, some);
  const uint64_t gathered = finish(c);
  EXPECT_GE(gathered, 400'000u);
  EXPECT_LE(some.memory.held(MemoryKind::kAnswers), gathered + kWritten);
  std::string answer;
  for (int i = 0; i < 200; ++i) answer += c.answer();
  EXPECT_EQ(answer.substr(0, 15), "HTTP/1.1 200 OK");
  EXPECT_NE(answer.find("transfer-encoding: chunked"), answer.npos) << answer.substr(0, 300);
  EXPECT_TRUE(answer.ends_with("\r\n0\r\n\r\n"));
  EXPECT_EQ(some.memory.held(), 0u);
  c.h1->closed();
}

TEST_P(SlowReaders, WhoVanishGiveAllBack) {
  Client c(router, some);
  (void)finish(c);
  EXPECT_GT(some.memory.held(MemoryKind::kAnswers), 400'000u);
  c.h1->closed();
  EXPECT_EQ(some.memory.held(), 0u);
}

constexpr std::pair<const char*, const char*> kAsked[] = {
    {"/v1/chat/completions",
     R"({"model":"m","messages":[{"role":"user","content":"hi"}],"logprobs":true,"top_logprobs":20})"},
    {"/api/chat",
     R"({"model":"m","stream":false,"messages":[{"role":"user","content":"hi"}],"logprobs":true,"top_logprobs":20})"},
    {"/v1/messages", R"({"model":"m","max_tokens":50,"messages":[{"role":"user","content":"hi"}]})"},
    {"/v1/responses", R"({"model":"m","store":false,"input":"hi","include":["message.output_text.logprobs"],
                          "top_logprobs":20})"},
    {"/v1/responses", R"({"model":"m","store":false,"input":"hi","include":["message.output_text.logprobs"],
                          "top_logprobs":20,"stream":true})"}};
INSTANTIATE_TEST_SUITE_P(OfEachApi, SlowReaders, testing::ValuesIn(kAsked));

// The events that end a stream of responses repeat all that was said.
class LongResponses : public OpenaiMemory {
 protected:
  // The events of a stream of as many tokens, which `end` ends.
  std::vector<Json> stream(int tokens, void (*end)(ScriptedAnswer)) {
    Client c(router, some);
    c.ask(R"({"model":"m","store":false,"input":"hi","include":["message.output_text.logprobs"],"top_logprobs":20,
              "stream":true})",
          "/v1/responses");
    turn();
    emit(tokens);
    std::string answer = c.answer();
    const uint64_t gathered = some.memory.held(MemoryKind::kAnswers);
    end(scripted());
    turn();
    EXPECT_LE(some.memory.held(MemoryKind::kAnswers), gathered + (1 << 20));
    for (std::string more = c.answer(); !more.empty(); more = c.answer()) answer += more;
    EXPECT_EQ(some.memory.held(), 0u);
    c.h1->closed();
    return events_of(answer.substr(answer.find("\r\n\r\n") + 4));
  }
  static std::vector<Json> events_of(std::string_view chunks) {
    std::string events;
    for (size_t size = 1; size > 0;) {
      size = std::stoul(std::string(chunks.substr(0, 16)), nullptr, 16);
      chunks.remove_prefix(chunks.find("\r\n") + 2);
      events += chunks.substr(0, size);
      chunks.remove_prefix(size + 2);
    }
    EXPECT_TRUE(chunks.empty());
    return response_events(events);
  }

  support::CountedSlabs some{64 << 20};
};

TEST_F(LongResponses, AreAsShortOnesAndTheirLastEventsAreWrittenWhileTheClientTakesThem) {
  for (const int tokens : {3, 2000}) {
    const std::vector<Json> told = stream(tokens, [](ScriptedAnswer model) { model.done(msg::Finish::kEos); });
    ASSERT_EQ(told.size(), size_t(tokens + 8)) << tokens;
    const Json& part = told[told.size() - 3]["part"];
    EXPECT_EQ(part["text"], std::string(size_t(tokens), 'A'));
    EXPECT_EQ(part["logprobs"].size(), size_t(tokens));
    const Json& text = told[told.size() - 4];
    EXPECT_EQ(text["type"], "response.output_text.done");
    EXPECT_EQ(text["text"], part["text"]);
    EXPECT_EQ(text["logprobs"], part["logprobs"]);
    EXPECT_EQ(told[told.size() - 2]["item"]["content"][0], part);
    EXPECT_EQ(told.back()["type"], "response.completed");
    EXPECT_EQ(told.back()["response"]["output"][0], told[told.size() - 2]["item"]);
    EXPECT_EQ(told.back()["response"]["usage"]["output_tokens"], tokens);
  }
}

TEST_F(LongResponses, ThatFailTellSoBehindAllThatHasCome) {
  for (const int tokens : {3, 2000}) {
    const auto told = stream(tokens, [](ScriptedAnswer model) { model.fail(base::Code::kInternal, "broken"); });
    ASSERT_EQ(told.size(), size_t(tokens + 5)) << tokens;
    EXPECT_EQ(told.back()["type"], "response.failed");
    EXPECT_EQ(told.back()["response"]["error"]["message"], "broken");
    EXPECT_EQ(told.back()["response"]["output"][0]["content"][0]["text"], std::string(size_t(tokens), 'A'));
  }
}

TEST_F(OpenaiMemory, IdsOfAPromptAreToldWithEachOfItsChoices) {
  Client c(router, slabs);
  const std::string prompt(30, 'a');
  c.ask(R"({"model":"m","n":8,"return_token_ids":true,"prompt":")" + prompt + "\"}", "/v1/completions");
  turn();
  ASSERT_EQ(inbox().held.size(), 8u);
  for (size_t i = 0; i < 8; ++i) scripted(i).emit("b");
  turn();
  for (size_t i = 8; i-- > 0;) scripted(i).end();
  turn();
  const std::string answer = c.answer();
  size_t told = 0;
  for (size_t at = 0; (at = answer.find("\"prompt_token_ids\":[97,97,", at)) != answer.npos; ++at) ++told;
  EXPECT_EQ(told, 8u) << answer;
  EXPECT_EQ(slabs.memory.held(), 0u);
  c.h1->closed();
}

TEST_F(OpenaiMemory, WhoLeavesGivesItBack) {
  Client c(router, slabs);
  c.ask(kAsk);
  turn();
  emit(50);
  c.h1->closed();
  EXPECT_EQ(slabs.memory.held(), 0u);
}

TEST_F(OpenaiMemory, TextsThatAreScoredAreChargedUntilTheyAre) {
  models.add(support::classifier_spec("r", {"LABEL_0"}));
  bus.publish(models.catalog);
  const std::string body = Json{{"query", "q"}, {"documents", std::vector<std::string>(100, "abc")}}.dump();
  Client c(router, slabs);
  c.ask(body, "/rerank");
  turn();
  ASSERT_EQ(models["r"].held.size(), 64u);
  EXPECT_GE(slabs.memory.held(MemoryKind::kAnswers), 100u * 64);
  c.h1->closed();
  EXPECT_EQ(slabs.memory.held(MemoryKind::kAnswers), 0u);
  models.finish_all();
  turn();
  Client late(router, slabs);
  slabs.memory.add(MemoryKind::kSlabs, (1 << 20) - 5000);
  late.ask(body, "/rerank");
  turn();
  EXPECT_EQ(late.answer().substr(0, 12), "HTTP/1.1 503");
  EXPECT_TRUE(models["r"].held.empty());
  late.h1->closed();
}

// A stream tells a custom tool's call when it is whole.
TEST_F(OpenaiMemory, TheCallThatAStreamKeepsIsCharged) {
  models.add(support::tools_spec("hermes", "{# <tool_call> #}{{ tools | tojson }}|{{ messages | tojson }}"));
  bus.publish(models.catalog);
  Client c(router, slabs);
  c.ask(R"({"model":"hermes","stream":true,"messages":[{"role":"user","content":"hi"}],
            "tools":[{"type":"custom","custom":{"name":"run"}}]})");
  turn();
  ASSERT_EQ(models["hermes"].held.size(), 1u) << c.answer();
  ScriptedAnswer says{models["hermes"], models["hermes"].held.back()};
  says.emit("<tool_call>\n{\"name\": \"run\", \"arguments\": {\"input\": \"" + std::string(50'000, 'a'));
  turn();
  EXPECT_GE(slabs.memory.held(MemoryKind::kAnswers), 50'000u);
  c.h1->closed();
  EXPECT_EQ(slabs.memory.held(), 0u);
}

// A model that has a token of many spaces.
TEST_F(OpenaiMemory, TextOfFewIdsIsChargedBeforeItIsMade) {
  models.add(support::tools_spec("s", "", {"<" + std::string(500, ' ') + ">"}));
  const auto ask = [&](size_t ids, const char* path, Json more) {
    Client c(router, slabs);
    more.update({{"model", "s"}, {path == std::string("/tokenize") ? "prompt" : "tokens", std::vector<int>(ids, 260)}});
    c.ask(more.dump(), path);
    turn();
    const std::string answer = c.answer();
    EXPECT_EQ(slabs.memory.held(), 0u);
    c.h1->closed();
    return answer.substr(9, 3);
  };
  for (auto* path : {"/tokenize", "/detokenize"}) {
    const Json more = path == std::string("/tokenize") ? Json({{"return_token_strs", true}}) : Json::object();
    EXPECT_EQ(ask(100, path, more), "200") << path;
    EXPECT_EQ(ask(4000, path, more), "503") << path << ": 2 MB of text where there is 1 MiB";
  }
}

// The bench with a model whose embeddings are wide.
class WideEmbeddings : public OpenaiMemory {
 protected:
  WideEmbeddings() {
    msg::ModelSpec spec = support::text_spec("w");
    auto text = std::make_shared<msg::TextSpec>(*spec.text);
    text->hidden_size = kWidth;
    spec.text = std::move(text);
    models.add(spec);
  }
  void ask(Client& c, size_t inputs) {
    c.ask(Json({{"model", "w"}, {"input", std::vector<std::string>(inputs, "a")}}).dump(), "/v1/embeddings");
    turn();
  }
  void finish_one() {
    const std::vector<float> values(kWidth, 0.123456F);
    msg::Outputs out;
    out.tensors.push_back({"e",
                           msg::DType::kFp32,
                           {kWidth},
                           base::Bytes::copy_of({reinterpret_cast<const char*>(values.data()), 4 * values.size()})});
    models["w"].finish(models["w"].held.at(0), {std::move(out)});
    turn();
  }
  static constexpr uint32_t kWidth = 4096;
};

TEST_F(WideEmbeddings, AreChargedUntilTheAnswerIsOut) {
  Client c(router, slabs);
  ask(c, 5);
  for (int i = 0; i < 4; ++i) finish_one();
  EXPECT_GE(slabs.memory.held(MemoryKind::kAnswers), 4u * kWidth * 8);
  finish_one();
  EXPECT_EQ(c.answer().substr(0, 15), "HTTP/1.1 200 OK");
  EXPECT_EQ(slabs.memory.held(), 0u);
  c.h1->closed();
}

TEST_F(WideEmbeddings, TextsAreChargedUntilTheyAreVectors) {
  Client c(router, slabs);
  ask(c, 500);
  ASSERT_EQ(models["w"].held.size(), 16u);
  EXPECT_GE(slabs.memory.held(MemoryKind::kAnswers), 500u * 64);
  c.h1->closed();
  EXPECT_EQ(slabs.memory.held(MemoryKind::kAnswers), 0u);
  models.finish_all();
  turn();
  Client late(router, slabs);
  slabs.memory.add(MemoryKind::kSlabs, (1 << 20) - 20'000);
  ask(late, 500);
  EXPECT_EQ(late.answer().substr(0, 12), "HTTP/1.1 503");
  EXPECT_TRUE(models["w"].held.empty());
  late.h1->closed();
}

TEST_F(WideEmbeddings, WithoutRoomTheAnswerIs503) {
  Client c(router, slabs);
  ask(c, 60);
  for (int i = 0; i < 60 && !models["w"].held.empty(); ++i) finish_one();
  EXPECT_EQ(c.answer().substr(0, 12), "HTTP/1.1 503");
  EXPECT_EQ(slabs.memory.held(), 0u);
  c.h1->closed();
}

TEST_F(WideEmbeddings, ManyAreWrittenWhileTheClientTakesThem) {
  support::CountedSlabs large{64 << 20};
  Client c(router, large);
  ask(c, 60);
  for (int i = 0; i < 60; ++i) finish_one();
  std::string answer;
  for (int i = 0; i < 1000; ++i) answer += c.answer();
  EXPECT_NE(answer.find("transfer-encoding: chunked"), answer.npos) << answer.substr(0, 300);
  EXPECT_NE(answer.find(R"("index":59,)"), answer.npos);
  EXPECT_NE(answer.find(R"("total_tokens":60}})"), answer.npos);
  EXPECT_EQ(large.memory.held(), 0u);
  c.h1->closed();
}

}  // namespace
}  // namespace weir::openai
