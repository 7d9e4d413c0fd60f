// A session costs the server nothing beside what it is charged for.
#include "bench.h"
#include "marshal/pb_wire.h"
#include "session/byte_quota.h"
#include "support/held_workers.h"

namespace weir::evergreen {
namespace {

// How the session stands that gets this message.
std::string status_of(const std::string& message) {
  Bench t;
  auto x = t.open();
  t.rpc.data(*x, support::grpc_frame(message));
  t.turn();
  return t.status(*x);
}
std::string field(int number, const std::string& value) {
  std::string out;
  marshal::put_bytes(out, uint32_t(number), value);
  return out;
}
std::string many(int count, const std::string& one) {
  std::string out;
  for (int i = 0; i < count; ++i) out += one;
  return out;
}

TEST(EvergreenMemory, UnknownFieldsAreBounded) {
  const std::string much = field(15, std::string(66'000, 'z')),
                    refusal = "INVALID_ARGUMENT: more than 64 KiB of unknown fields in SessionMessage";
  EXPECT_EQ(status_of(field(15, std::string(60'000, 'z'))), "open");
  EXPECT_EQ(status_of(much), refusal);
  EXPECT_EQ(status_of(field(1, field(1, "a") + much)), refusal) << "NodeFragment";
  EXPECT_EQ(status_of(field(1, field(1, "a") + field(5, much))), refusal) << "Chunk";
  EXPECT_EQ(status_of(field(2, field(2, "ECHO") + much)), refusal) << "Action";
  EXPECT_EQ(status_of(field(2, field(2, "ECHO") + field(3, much))), refusal) << "NamedParameter";
  EXPECT_EQ(status_of(field(2, field(2, "ECHO") + field(5, much))), refusal) << "Any";
  EXPECT_EQ(status_of(field(2, field(2, "ECHO") + field(6, much))), refusal) << "TargetSpec";
}

// Each takes two bytes of a message and a moment of the shard, which no charge for content bounds.
TEST(EvergreenMemory, FieldsOfAFragmentAndOfAnActionAreBounded) {
  constexpr int kFew = 16'000, kMany = 17'000;
  const std::string refusal =
      "INVALID_ARGUMENT: a fragment or an action has at most 16384 fields; more children of a node are in its next "
      "fragments";
  auto fragment = [](const std::string& rest) { return field(1, field(1, "a") + rest); };
  auto action = [](const std::string& rest) { return field(2, field(2, "ECHO") + rest); };
  EXPECT_EQ(status_of(fragment(many(kFew, field(4, "c")))), "open");
  EXPECT_EQ(status_of(fragment(many(kFew, field(4, "c"))) + field(1, field(1, "b") + many(kFew, field(4, "c")))),
            "open")
      << "of each by itself";
  EXPECT_EQ(status_of(fragment(many(kMany, field(4, "c")))), refusal);
  EXPECT_EQ(status_of(fragment(many(kMany, field(1, "a")))), refusal) << "the last one counts, all are read";
  EXPECT_EQ(status_of(fragment(field(5, many(kMany, field(10, ""))))), refusal);
  EXPECT_EQ(status_of(fragment(field(5, field(1, many(kMany, field(100, "")))))), refusal);
  EXPECT_EQ(status_of(fragment(field(5, many(2, field(1, many(kMany / 2, field(100, ""))))))), refusal) << "together";
  EXPECT_EQ(status_of(action(field(3, many(kMany, field(1, ""))))), refusal);
  EXPECT_EQ(status_of(action(field(5, many(kMany, field(2, ""))))), refusal);
  EXPECT_EQ(status_of(action(field(6, many(kMany, field(1, ""))))), refusal);
}

TEST(EvergreenMemory, ConfigurationsAreBounded) {
  auto action = [](size_t bytes) {
    return field(2,
                 field(2, "ECHO") + field(5, field(1, "type.googleapis.com/a.B") + field(2, std::string(bytes, 'x'))));
  };
  EXPECT_EQ(status_of(action(300 << 10)), "INVALID_ARGUMENT: action ECHO: takes no configuration of type 'a.B'");
  EXPECT_EQ(status_of(action(400 << 10)), "INVALID_ARGUMENT: the configurations of an action have at most 320 KiB");
}

// --- what is charged, and how long -----------------------------------------------------------------------------------

Options of_bytes(uint64_t bytes) {
  Options options;
  options.graph.bytes = bytes;
  return options;
}
std::string leaf_of(const std::string& id, const std::string& mimetype, size_t bytes) {
  return "node_fragments { id: '" + id + "' chunk_fragment { metadata { mimetype: '" + mimetype + "' } data: '" +
         std::string(bytes, 'x') + "' } }";
}
std::string tensor(const std::string& id) {
  return leaf_of(id, "application/x-weir-tensor; dtype=UINT8; shape=50000", 50'000);
}
std::string infer(const std::string& a, const std::string& out) {
  return "actions { name: 'INFER' target_spec { id: 'add' } inputs { name: 'a' id: '" + a +
         "' } inputs { name: 'b' id: 'never' } outputs { name: 'y' id: '" + out + "' } }";
}
std::string control(const std::string& action, const std::string& input, const std::string& id) {
  return "actions { name: '" + action + "' inputs { name: '" + input + "' id: '" + id + "' } }";
}

TEST(EvergreenMemory, BytesOfADroppedNodeCountWhileAnActionHoldsThem) {
  Bench t(of_bytes(200'000));
  auto x = t.open();
  int rounds = 0;
  for (; rounds < 100 && t.status(*x) == "open"; ++rounds) {
    std::string node = "l" + std::to_string(rounds);
    t.send(*x, tensor(node));
    t.send(*x, infer(node, "y" + std::to_string(rounds)));
    t.send(*x, control("DROP", "node", node));
  }
  EXPECT_EQ(t.status(*x).substr(0, 18), "RESOURCE_EXHAUSTED");
  EXPECT_LE(rounds, 4) << "three of them are 150,000 bytes";
}

TEST(EvergreenMemory, BytesOfADroppedNodeCountNoMoreWhenItsActionIsOver) {
  Bench t(of_bytes(200'000));
  auto x = t.open();
  for (int i = 0; i < 20; ++i) {
    std::string node = "l" + std::to_string(i), out = "y" + std::to_string(i);
    t.send(*x, tensor(node));
    t.send(*x, infer(node, out));
    t.send(*x, control("DROP", "node", node));
    t.send(*x, control("CANCEL", "output", out));
    ASSERT_EQ(t.status(*x), "open") << i;
  }
}

TEST(EvergreenMemory, ATensorAndTheActionThatReadsItAreChargedOnce) {
  Bench t(of_bytes(80'000));
  auto x = t.open();
  t.send(*x, tensor("l"));
  t.send(*x, infer("l", "y"));
  EXPECT_EQ(t.status(*x), "open");
}

TEST(EvergreenMemory, AnImageOfADroppedNodeCountsWhileItsPromptWaits) {
  Bench t(of_bytes(200'000));
  auto& served = *t.catalog->models["chat"].versions["1"];
  auto seeing = std::make_shared<msg::TextSpec>(*served.spec.text);
  seeing->vision = msg::TextSpec::Vision{};
  served.spec.text = seeing;
  auto x = t.open();
  int rounds = 0;
  for (; rounds < 100 && t.status(*x) == "open"; ++rounds) {
    std::string n = std::to_string(rounds);
    t.send(*x, leaf_of("i" + n, "image/png", 50'000) + "node_fragments { id: 'p" + n + "' child_ids: 'i" + n +
                   "' child_ids: 'never' }");
    t.send(*x, generate("p" + n, "r" + n));
    t.send(*x, control("DROP", "node", "i" + n));
  }
  EXPECT_EQ(t.status(*x).substr(0, 18), "RESOURCE_EXHAUSTED");
  EXPECT_LE(rounds, 4);
}

TEST(EvergreenMemory, ActionsThatAreOverCountNoMoreWithinTheirOwnMessage) {
  Bench t(of_bytes(100'000));
  auto x = t.open();
  std::string done, failed;
  for (int i = 0; i < 100; ++i) done += "actions { name: 'LIST_ACTIONS' }";
  for (int i = 0; i < 20; ++i)
    failed += "actions { name: 'LIST_ACTIONS' target_spec { id: 'none' } outputs { name: 'status' id: 's" +
              std::to_string(i) + "' } }";
  t.send(*x, done + failed);
  EXPECT_EQ(t.status(*x), "open");
  EXPECT_NE(t.leaf(*x, "s19").find("\"code\":5"), std::string::npos);
}

TEST(EvergreenMemory, AnOutputThatFindsNoRoomEndsWithoutAChunk) {
  Bench t(of_bytes(50'000));
  auto x = t.open();
  const std::string two = "application/x-weir-tensor; dtype=INT32; shape=2";
  t.tensors["add"].script = {support::outputs("y INT32 [2] [1,2]; z BYTES [1] [\"" + std::string(60'000, 'x') + "\"]")};
  t.send(*x,
         leaf_of("a", two, 8) + leaf_of("b", two, 8) +
             "actions { name: 'INFER' target_spec { id: 'add' } inputs { name: 'a' id: 'a' } inputs { name: 'b' id: "
             "'b' } outputs { name: 'z' id: 'o' } outputs { name: 'status' id: 's' } }");
  EXPECT_NE(t.leaf(*x, "s").find("\"code\":8"), std::string::npos) << t.leaf(*x, "s");
  int ends = 0;
  for (const auto& f : t.fragments(*x)) {
    if (f.id() != "o") continue;
    EXPECT_FALSE(f.has_chunk_fragment()) << "the first chunk of a node has metadata";
    ends += !f.continued();
  }
  EXPECT_EQ(ends, 1);
}

TEST(EvergreenMemory, ALeafOfAnOutputThatFindsNoRoomEnds) {
  Bench t(of_bytes(50'000));
  auto x = t.open();
  const std::string two = "application/x-weir-tensor; dtype=INT32; shape=2";
  t.tensors["add"].script = {support::outputs("y INT32 [2] [1,2]; z BYTES [1] [\"" + std::string(60'000, 'x') + "\"]")};
  t.send(*x,
         leaf_of("a", two, 8) + leaf_of("b", two, 8) +
             "actions { name: 'INFER' target_spec { id: 'add' } inputs { name: 'a' id: 'a' } inputs { name: 'b' id: "
             "'b' } outputs { name: 'outputs' id: 'o' } outputs { name: 'status' id: 's' } }");
  EXPECT_NE(t.leaf(*x, "s").find("\"code\":8"), std::string::npos) << t.leaf(*x, "s");
  EXPECT_EQ(t.leaf(*x, "o/y").size(), 8u);
  EXPECT_EQ(t.leaf(*x, "o/z"), "");
  t.send(*x, control("DROP", "node", "o/z"));
  EXPECT_EQ(t.status(*x), "open");
}

TEST(EvergreenMemory, ALeafOfATokenThatFindsNoRoomEnds) {
  Bench t(of_bytes(14'000));
  auto x = t.open();
  auto m = t.parse(generate("p", "r", "outputs { name: 'status' id: 's' }") + text_leaf("p", "hello"));
  v1::GenerateConfig config;
  config.set_logprobs(true);
  add_config(m, config);
  t.send(*x, m);
  ASSERT_EQ(t.chat->held.size(), 1u) << t.status(*x);
  const uint32_t at = uint32_t(t.chat->held[0]->generation->length());
  for (uint32_t i = 0; i < 100; ++i) t.chat->emit(t.chat->held[0], {msg::Token{'z', at + i, false, nullptr}});
  t.turn();
  EXPECT_NE(t.leaf(*x, "s").find("\"code\":8"), std::string::npos) << t.leaf(*x, "s");
  std::map<std::string, int> open;  // and not ended
  for (const auto& f : t.fragments(*x)) {
    for (const auto& child : f.child_ids()) ++open[child];
    if (!f.continued()) open.erase(f.id());
  }
  EXPECT_TRUE(open.empty()) << open.begin()->first;
}

TEST(EvergreenMemory, ATextThatAWorkerReadsCounts) {
  session::ByteQuota quota(1 << 30, 1 << 30);
  support::HeldWorkers workers;
  Bench t({}, nullptr, &quota);
  t.bus.set_worker_pool(workers);
  auto x = t.open();
  t.send(*x, leaf_of("l", "text/plain", 20'000) +
                 "actions { name: 'TOKENIZE' inputs { name: 'text' id: 'l' } outputs { name: 'tokens' id: 't' } "
                 "target_spec { id: 'chat' } }");
  t.send(*x, control("DROP", "node", "l"));
  ASSERT_EQ(workers.held.size(), 1u);
  EXPECT_GE(quota.held(), 20'000u);
  workers.work();
  t.turn();
  EXPECT_EQ(t.leaf(*x, "t").size(), 20'000u * sizeof(uint32_t));
}

// --- a prompt, an answer, and what is remembered of them -------------------------------------------------------------

// The model "chat" with a context of so many tokens. One of them is a byte of text.
void set_context(Bench& t, uint32_t tokens) {
  auto& served = *t.catalog->models["chat"].versions["1"];
  auto text = std::make_shared<msg::TextSpec>(*served.spec.text);
  text->max_length = tokens;
  served.spec.text = text;
}
constexpr uint64_t kPromptBytes = 20'000, kPerToken = 1 + sizeof(uint32_t);  // of text, and of ids

// Asks, is answered, and drops question and answer.
void converse(Bench& t, support::FakeExchange& x, char with) {
  t.send(x, generate("p", "r") + text_leaf("p", std::string(kPromptBytes, with)));
  t.answer("yes");
  t.send(x, control("DROP", "node", "p") + control("DROP", "node", "r"));
}

TEST(EvergreenMemory, APromptAtAModelAndTheAnswerCount) {
  session::ByteQuota quota(1 << 30, 1 << 30);
  Bench t({}, nullptr, &quota);
  set_context(t, 100'000);
  auto x = t.open();
  t.send(*x, generate("p", "r") + text_leaf("p", std::string(kPromptBytes, 'x')));
  t.send(*x, control("DROP", "node", "p"));
  ASSERT_EQ(t.chat->held.size(), 1u);
  const uint64_t asked = quota.held();
  EXPECT_GE(asked, kPromptBytes * kPerToken);
  const uint32_t at = uint32_t(t.chat->held[0]->generation->length());
  for (uint32_t i = 0; i < kPromptBytes; ++i) t.chat->emit(t.chat->held[0], {msg::Token{'z', at + i, false, nullptr}});
  t.turn();
  EXPECT_GE(quota.held(), asked + kPromptBytes * kPerToken + kPromptBytes) << "the answer, its ids, and its node";
  t.send(*x, control("CANCEL", "output", "r"));
  t.send(*x, control("DROP", "node", "r"));
  EXPECT_LT(quota.held(), kPromptBytes);
}

TEST(EvergreenMemory, WhatIsRememberedOfAConversationCounts) {
  session::ByteQuota quota(1 << 30, 1 << 30);
  Bench t({}, nullptr, &quota);
  set_context(t, 100'000);
  auto x = t.open();
  for (char c : std::string("abc")) converse(t, *x, c);
  EXPECT_GE(quota.held(), 3 * kPromptBytes * kPerToken);
  for (char c : std::string("defghijklmno")) converse(t, *x, c);
  EXPECT_LT(quota.held(), 10 * kPromptBytes * kPerToken) << "the oldest go";
  x.reset();
  t.rpc.env.advance(std::chrono::milliseconds(1));
  EXPECT_EQ(quota.held(), 0u);
}

TEST(EvergreenMemory, WhatIsRememberedMakesRoom) {
  Bench t(of_bytes(1'000'000));
  set_context(t, 100'000);
  auto x = t.open();
  converse(t, *x, 'a');
  t.send(*x, leaf_of("l", "a/b", 960'000));
  EXPECT_EQ(t.status(*x), "open");
  t.send(*x, control("DROP", "node", "l"));
  converse(t, *x, 'b');
  EXPECT_EQ(t.status(*x), "open");
}

TEST(EvergreenMemory, WhatIsRememberedTakesAnEighthOfASessionAtMost) {
  session::ByteQuota quota(1 << 30, 1 << 30);
  Bench t(of_bytes(1'000'000), nullptr, &quota);
  set_context(t, 100'000);
  auto x = t.open();
  for (char c : std::string("abc")) converse(t, *x, c);
  EXPECT_GE(quota.held(), kPromptBytes * kPerToken);
  EXPECT_LT(quota.held(), 2 * kPromptBytes * kPerToken);
}

}  // namespace
}  // namespace weir::evergreen
