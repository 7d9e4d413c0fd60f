#include "evergreen_bench.h"
#include "support/held_workers.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <limits>
#include <random>

namespace weir::evergreen {
namespace {

using support::FakeExchange;
using namespace std::chrono_literals;

template <class Config>
void add_config(pb::SessionMessage& m, const Config& config) {
  m.mutable_actions(0)->add_configs()->PackFrom(config);
}

// --- what actions do -------------------------------------------------------------------------------------------------

TEST(Evergreen, EchoAnswersWhileTheNodeIsStillComing) {
  Bench t;
  auto x = t.open();
  t.send(*x, "actions { name: 'ECHO' inputs { name: 'x' id: 'in' } outputs { name: 'x' id: 'out' } }");
  t.send(*x,
         "node_fragments { id: 'in' continued: true chunk_fragment { metadata { mimetype: 'a/b' } data: 'one ' } }");
  EXPECT_EQ(t.leaf(*x, "out"), "one …");
  t.send(*x, "node_fragments { id: 'in' seq: 1 chunk_fragment { data: 'two' } }");
  EXPECT_EQ(t.leaf(*x, "out"), "one two");
  auto first = t.fragments(*x).at(0);
  EXPECT_EQ(first.chunk_fragment().metadata().mimetype(), "a/b");
  EXPECT_EQ(t.status(*x), "open");
  t.rpc.end(*x);
  EXPECT_EQ(t.status(*x), "");
}

TEST(Evergreen, AnEchoOfATreeIsANodeOfLeaves) {
  Bench t;
  auto x = t.open();
  t.send(*x,
         "actions { name: 'ECHO' inputs { name: 'x' id: 'in' } outputs { name: 'y' id: 'out' } }"
         "node_fragments { id: 'in' child_ids: 'a' child_ids: 'b' }" +
             text_leaf("b", "B") + text_leaf("a", "A"));
  t.rpc.end(*x);
  EXPECT_EQ(t.leaf(*x, "out/0"), "A");
  EXPECT_EQ(t.leaf(*x, "out/1"), "B");
  EXPECT_EQ(t.status(*x), "");
}

TEST(Evergreen, AnOutputIsAnothersInputBeforeItIsComplete) {
  Bench t;
  auto x = t.open();
  t.send(*x,
         "actions { name: 'ECHO' inputs { name: 'x' id: 'mid' } outputs { name: 'x' id: 'out' } }"
         "actions { name: 'ECHO' inputs { name: 'x' id: 'in' } outputs { name: 'x' id: 'mid' } }"
         "node_fragments { id: 'in' continued: true chunk_fragment { metadata { mimetype: 'a/b' } data: '1' } }");
  EXPECT_EQ(t.leaf(*x, "out"), "1…");
}

TEST(Evergreen, GenerateStreamsTheAnswerOfTheModel) {
  Bench t;
  auto x = t.open();
  t.send(*x, generate("p", "r", "outputs { name: 'usage' id: 'u' }") + text_leaf("p", "hello"));
  EXPECT_EQ(t.prompt(), "[user]hello<|end|>[assistant]");
  msg::Call* call = t.chat->held.at(0);
  t.chat->say(call, {msg::Token{'H', 30, false, nullptr}});
  t.turn();
  EXPECT_EQ(t.leaf(*x, "r"), "H…");
  t.answer("i");
  EXPECT_EQ(t.leaf(*x, "r"), "Hi");
  EXPECT_NE(t.leaf(*x, "u").find("\"finish_reason\":\"stop\""), std::string::npos);
  v1::Usage usage;
  for (const auto& f : t.fragments(*x))
    if (f.id() == "u") f.chunk_fragment().metadata().experimental(0).UnpackTo(&usage);
  EXPECT_EQ(usage.prompt_tokens(), call ? usage.prompt_tokens() : 0);
  EXPECT_EQ(usage.completion_tokens(), 2u);
}

TEST(Evergreen, ConfigurationReachesTheModelAndIsChecked) {
  Bench t;
  auto x = t.open();
  auto m = t.parse(generate("p", "r") + text_leaf("p", "hello"));
  v1::GenerateConfig c;
  c.set_temperature(0);
  c.set_max_tokens(7);
  c.set_seed(5);
  c.set_raw(true);
  add_config(m, c);
  t.send(*x, m);
  EXPECT_EQ(t.prompt(), "hello");
  const msg::Generation& g = *t.chat->held.at(0)->generation;
  EXPECT_EQ(g.sampling.temperature, 0);
  EXPECT_EQ(g.max_tokens, 7u);
  EXPECT_EQ(g.sampling.seed, 5u);

  auto y = t.open();
  m = t.parse(generate("p", "r"));
  c.set_top_p(0);
  add_config(m, c);
  t.send(*y, m);
  EXPECT_EQ(t.status(*y), "INVALID_ARGUMENT: action GENERATE: GenerateConfig.top_p is to be above 0 and at most 1");
  EXPECT_EQ(t.status(*x), "open") << "another session";
}

TEST(Evergreen, NumbersAtTheirEdgesAreTakenOrNamed) {
  Bench t;
  struct Edge {
    std::string_view field;
    std::function<void(v1::GenerateConfig&)> set;
    bool good = false;
  };
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<Edge> edges;
  auto real = [&](std::string_view field, void (v1::GenerateConfig::*set)(float), std::vector<float> good,
                  std::vector<float> bad) {
    for (float v : good) edges.push_back({field, [=](auto& c) { (c.*set)(v); }, true});
    for (float v : {inf, -inf, nan}) bad.push_back(v);
    for (float v : bad) edges.push_back({field, [=](auto& c) { (c.*set)(v); }});
  };
  auto whole = [&](std::string_view field, void (v1::GenerateConfig::*set)(uint32_t), std::vector<uint32_t> good,
                   std::vector<uint32_t> bad) {
    for (uint32_t v : good) edges.push_back({field, [=](auto& c) { (c.*set)(v); }, true});
    for (uint32_t v : bad) edges.push_back({field, [=](auto& c) { (c.*set)(v); }});
  };
  using C = v1::GenerateConfig;
  real("temperature", &C::set_temperature, {0, 100}, {-1e-6f, 100.1f, -0x1p31f, 0x1p63f});
  real("top_p", &C::set_top_p, {1e-9f, 1}, {0, -1, 1.1f, 0x1p31f});
  real("min_p", &C::set_min_p, {0, 1}, {-0.1f, 1.1f, 0x1p63f});
  real("presence_penalty", &C::set_presence_penalty, {-2, 2}, {-2.1f, 2.1f, 0x1p31f});
  real("frequency_penalty", &C::set_frequency_penalty, {-2, 2}, {-2.1f, 2.1f, 0x1p31f});
  real("repetition_penalty", &C::set_repetition_penalty, {1e-3f, 100}, {0, -1, 101, 0x1p63f});
  whole("max_tokens", &C::set_max_tokens, {0, 1, 990}, {1001, 1u << 31, UINT32_MAX});
  whole("min_tokens", &C::set_min_tokens, {0, 256}, {257, 1u << 31, UINT32_MAX});
  whole("top_k", &C::set_top_k, {0, 1, 1u << 31, UINT32_MAX}, {});
  whole("top_logprobs", &C::set_top_logprobs, {0, 20}, {21, 1u << 31, UINT32_MAX});
  for (const Edge& edge : edges) {
    auto x = t.open();
    auto m = t.parse(generate("p", "r") + text_leaf("p", "hello"));
    C c;
    c.set_raw(true);
    edge.set(c);
    add_config(m, c);
    t.send(*x, m);
    if (edge.good) {
      EXPECT_EQ(t.status(*x), "open") << c.ShortDebugString();
      t.answer("ok");
    } else {
      EXPECT_NE(t.status(*x).find("INVALID_ARGUMENT: action GENERATE: GenerateConfig." + std::string(edge.field)),
                std::string::npos)
          << c.ShortDebugString() << t.status(*x);
      EXPECT_TRUE(t.chat->held.empty());
    }
  }
}

TEST(Evergreen, APromptThatCannotFitIsRefusedBeforeItIsKept) {
  Bench t;
  auto x = t.open();
  t.send(*x, generate("p", "r"));
  for (int i = 0; i < 3 && t.status(*x) == "open"; ++i) {
    auto m = t.parse("node_fragments { id: 'p' continued: true seq: " + std::to_string(i) +
                     " chunk_fragment { metadata { mimetype: 'text/plain' } } }");
    m.mutable_node_fragments(0)->mutable_chunk_fragment()->set_data(std::string(60'000, 'x'));
    t.send(*x, m);
  }
  EXPECT_EQ(t.status(*x), "INVALID_ARGUMENT: action GENERATE: node 'p': the prompt is too long for the model");
}

TEST(Evergreen, ALongTextIsTokenizedByWorkersWhileTheSessionGoesOn) {
  Bench t;
  support::HeldWorkers workers;
  t.bus.employ(workers);
  std::string text(9'000, 'x');
  auto x = t.open();
  t.send(*x,
         "actions { name: 'TOKENIZE' inputs { name: 'text' id: 'p' } outputs { name: 'tokens' id: 'n' } target_spec { "
         "id: 'chat' } } actions { name: 'ECHO' inputs { name: 'x' id: 'in' } outputs { name: 'x' id: 'out' } }" +
             text_leaf("p", text));
  ASSERT_EQ(workers.held.size(), 1u);
  t.send(*x, text_leaf("in", "hello"));
  EXPECT_EQ(t.leaf(*x, "out"), "hello");
  EXPECT_EQ(t.leaf(*x, "n"), "…");
  workers.work();
  t.turn();
  EXPECT_GE(t.leaf(*x, "n").size(), 9'000u * 4);

  auto y = t.open();
  t.send(*y, generate("p", "r") + text_leaf("p", text));
  ASSERT_EQ(workers.held.size(), 1u);
  workers.work();
  t.turn();
  EXPECT_NE(t.status(*y).find("the model's context has 1000"), std::string::npos) << t.status(*y);

  auto gone = t.open();
  t.send(*gone, generate("p", "r") + text_leaf("p", text));
  ASSERT_EQ(workers.held.size(), 1u);
  gone.reset();
  EXPECT_TRUE(workers.held[0]->cancelled.load());
  workers.work();
  t.turn();
  EXPECT_TRUE(t.chat->held.empty());
}

TEST(Evergreen, AStopStringEndsTheAnswerAndTheCall) {
  Bench t;
  auto x = t.open();
  auto m = t.parse(generate("p", "r") + text_leaf("p", "hello"));
  v1::GenerateConfig c;
  c.add_stop("END");
  add_config(m, c);
  t.send(*x, m);
  msg::Call* call = t.chat->held.at(0);
  for (char ch : std::string("abENDxx")) t.chat->say(call, {msg::Token{uint8_t(ch), 0, false, nullptr}});
  t.turn();
  EXPECT_EQ(t.leaf(*x, "r"), "ab");
  EXPECT_TRUE(call->cancelled);
}

TEST(Evergreen, RolesAndEndsOfTurnsMakeTheConversation) {
  Bench t;
  auto x = t.open();
  t.send(
      *x,
      generate("p", "r") +
          "node_fragments { id: 'p' child_ids: 's' child_ids: 'a' child_ids: 'b' child_ids: 'eot' child_ids: 'c' "
          "child_ids: 'm' }" +
          text_leaf("a", "A") + text_leaf("b", "B") + text_leaf("c", "C") +
          "node_fragments { id: 's' chunk_fragment { metadata { mimetype: 'text/plain' role: 'SYSTEM' } data: 'S' } }"
          "node_fragments { id: 'm' chunk_fragment { metadata { mimetype: 'text/plain' role: 'model' } data: 'M' } }"
          "node_fragments { id: 'eot' chunk_fragment { metadata { mimetype: 'application/x-protobuf; "
          "type=EndOfTurn' } } }");
  EXPECT_EQ(t.prompt(), "[system]S<|end|>[user]AB<|end|>[user]C<|end|>[assistant]M<|end|>[assistant]");
}

TEST(Evergreen, TheSecondQuestionBeginsWithTheVeryTokensOfTheFirst) {
  Bench t;
  auto x = t.open();
  t.send(*x, generate("p1", "r1") + text_leaf("p1", "hello"));
  auto first = t.chat->held.at(0)->generation->append;
  t.answer("low");  // three bytes, where the tokenizer would take "l" and "ow"
  t.send(*x, generate("p2", "r2", "outputs { name: 'usage' id: 'u' }") +
                 "node_fragments { id: 'p2' child_ids: 'p1' child_ids: 'r1' child_ids: 'q2' }" +
                 text_leaf("q2", "why?"));
  EXPECT_EQ(t.prompt(), "[user]hello<|end|>[assistant]low<|end|>[user]why?<|end|>[assistant]");
  auto second = t.chat->held.at(0)->generation->append;
  for (char c : std::string("low")) first.push_back(uint8_t(c));
  first.push_back(kEnd);
  ASSERT_GT(second.size(), first.size());
  EXPECT_TRUE(std::equal(first.begin(), first.end(), second.begin()));
  t.answer("x", 21);
  EXPECT_NE(t.leaf(*x, "u").find("\"cached_prompt_tokens\":21"), std::string::npos);
}

TEST(Evergreen, DetailsOfTokensAreInTheMetadataOfALeafEach) {
  Bench t;
  auto x = t.open();
  auto m = t.parse(generate("p", "r") + text_leaf("p", "hello"));
  v1::GenerateConfig c;
  c.set_top_logprobs(1);
  c.set_readouts(true);
  add_config(m, c);
  t.send(*x, m);
  msg::Call* call = t.chat->held.at(0);
  EXPECT_EQ(call->generation->logprobs.at(0).start, call->generation->length());
  EXPECT_EQ(call->generation->readouts.size(), 1u);
  auto details = std::make_shared<msg::TokenDetails>();
  details->has_logprob = true, details->logprob = -0.5f, details->top = {{'y', -0.25f}}, details->readout = {0.75f};
  t.chat->say(call, {msg::Token{'x', 30, false, details}});
  t.chat->say(call, {msg::Done{30, 0, 1, msg::Finish::kLength, 0}});
  t.turn();
  EXPECT_EQ(t.leaf(*x, "r/0"), "x");
  v1::TokenDetails d;
  for (const auto& f : t.fragments(*x))
    if (f.id() == "r/0") f.chunk_fragment().metadata().experimental(0).UnpackTo(&d);
  EXPECT_EQ(d.ShortDebugString(),
            "id: 120 position: 30 logprob: -0.5 top { id: 121 text: \"y\" logprob: -0.25 } "
            "readouts { concept_name: \"digit\" layer: 1 value: 0.75 }");
}

const std::string kAdd =
    "actions { name: 'INFER' inputs { name: 'a' id: 'a' } inputs { name: 'b' id: 'b' } outputs { name: 'y' id: 'y' } "
    "target_spec { id: 'add' } }";
std::string tensor_leaf(std::string_view id, std::string_view type, std::string_view data) {
  return "node_fragments { id: '" + std::string(id) +
         "' chunk_fragment { metadata { mimetype: 'application/x-weir-tensor; " + std::string(type) + "' } data: '" +
         std::string(data) + "' } }";
}

TEST(Evergreen, InferTakesTensorsAndGivesTheOnesAskedFor) {
  Bench t;
  t.tensors["add"].script = {
      {msg::Outputs{support::parse_tensors("y INT32 [2] [3,4]; z BYTES [1] [\"z\"]"), {}, true}}};
  auto x = t.open();
  t.send(*x, kAdd + tensor_leaf("b", "dtype=INT32; shape=2", "\\003\\000\\000\\000\\004\\000\\000\\000") +
                 "node_fragments { id: 'a' seq: 1 chunk_fragment { data: '\\000\\000\\002\\000\\000\\000' } }");
  EXPECT_TRUE(t.tensors["add"].seen.empty());
  t.send(*x,
         "node_fragments { id: 'a' continued: true chunk_fragment { metadata { mimetype: "
         "'application/x-weir-tensor; dtype=INT32; shape=2' } data: '\\001\\000' } }");
  EXPECT_EQ(t.tensors["add"].seen.at(0), "add/1 rows=1 | a INT32 [2] [1,2] | b INT32 [2] [3,4]");
  ASSERT_EQ(t.fragments(*x).size(), 1u);
  EXPECT_EQ(
      t.fragments(*x)[0].ShortDebugString(),
      "id: \"y\" chunk_fragment { metadata { mimetype: \"application/x-weir-tensor; dtype=INT32; shape=2; name=y\" "
      "} data: \"\\003\\000\\000\\000\\004\\000\\000\\000\" }");
}

TEST(Evergreen, TokenizeAndEmbedGiveTensors) {
  Bench t;
  auto x = t.open();
  t.send(*x,
         "actions { name: 'TOKENIZE' inputs { name: 'text' id: 'p' } outputs { name: 'tokens' id: 'k' } }"
         "actions { name: 'EMBED' inputs { name: 'text' id: 'p' } outputs { name: 'embedding' id: 'e' } }" +
             text_leaf("p", "low"));
  EXPECT_EQ(t.leaf(*x, "k"), std::string("l\0\0\0\x01\x01\0\0", 8));
  ASSERT_EQ(t.chat->held.size(), 1u);
  msg::Call* call = t.chat->held[0];
  EXPECT_EQ(call->generation->aim, msg::Aim::kEmbed);
  t.chat->say(call, {msg::Outputs{support::parse_tensors("e FP32 [2] [1,0]"), {}, true}});
  t.turn();
  EXPECT_EQ(t.leaf(*x, "e").size(), 8u);
}

// --- what is refused -------------------------------------------------------------------------------------------------

TEST(Evergreen, FailuresEndTheSessionAndNameWhatWasWrong) {
  const std::vector<std::pair<std::string, std::string>> table{
      {"actions { name: 'DANCE' }",
       "NOT_FOUND: no such action: 'DANCE'; there are GENERATE, INFER, EMBED, TOKENIZE, ECHO, DROP, SET_TTL, CANCEL"},
      {"actions { name: 'GENERATE' inputs { name: 'prompt' id: 'p' } target_spec { id: 'chad' } }",
       "NOT_FOUND: action GENERATE: Request for unknown model 'chad': did you mean 'chat'?"},
      {"actions { name: 'GENERATE' inputs { name: 'prompt' id: 'p' } target_spec { id: 'add' } }",
       "INVALID_ARGUMENT: action GENERATE: model 'add' makes no tokens"},
      {"actions { name: 'GENERATE' target_spec { id: 'chat' } }",
       "INVALID_ARGUMENT: action GENERATE: needs the input prompt, text"},
      {"actions { name: 'GENERATE' inputs { name: 'promt' id: 'p' } }",
       "INVALID_ARGUMENT: action GENERATE: no input 'promt'; there are: prompt, text"},
      {"actions { name: 'GENERATE' inputs { name: 'text' id: 'p' } outputs { name: 'video' id: 'v' } }",
       "INVALID_ARGUMENT: action GENERATE: no output 'video'; there are: response, text, usage, status"},
      {text_leaf("r", "old") + generate("p", "r"),
       "ALREADY_EXISTS: action GENERATE: node 'r': the id of an output must be new"},
      {generate("p", "r") + text_leaf("r", "mine"),
       "ALREADY_EXISTS: action GENERATE: node 'r': the id of an output must be new"},
      {"node_fragments { id: 'a' child_ids: 'b' } node_fragments { id: 'b' child_ids: 'a' }",
       "INVALID_ARGUMENT: node 'b', fragment 0: child 'a' would make the node contain itself"},
      {"node_fragments { id: 'a' seq: -1 }",
       "INVALID_ARGUMENT: node 'a', fragment -1: a sequence number must not be negative"},
      {"node_fragments { id: 'a' chunk_fragment { metadata { mimetype: 'x/y' } ref: 'https://example.com/' } }",
       "PERMISSION_DENIED: node 'a', fragment 0: ref 'https://example.com/': references of this scheme are off"},
      {generate("p", "r") +
           "node_fragments { id: 'p' chunk_fragment { metadata { mimetype: 'video/mp4' } data: 'x' } }",
       "INVALID_ARGUMENT: action GENERATE: node 'p': the model takes no content of type 'video/mp4'"},
      {generate("p", "r") +
           "node_fragments { id: 'p' chunk_fragment { metadata { mimetype: 'text/plain' role: 'king' } data: 'x' } }",
       "INVALID_ARGUMENT: action GENERATE: node 'p': unknown role 'king'; there are user, assistant, system, tool"},
      {"actions { name: 'DROP' inputs { name: 'node' id: 'n' } }", "NOT_FOUND: action DROP: there is no node 'n'"},
      {kAdd + tensor_leaf("a", "dtype=INT33; shape=2", ""),
       "INVALID_ARGUMENT: action INFER: node 'a': unknown dtype 'INT33' in a tensor's mimetype"},
  };
  for (const auto& [sent, said] : table) {
    Bench t;
    auto x = t.open();
    auto other = t.open();
    t.send(*x, sent);
    EXPECT_EQ(t.status(*x), said) << sent;
    EXPECT_EQ(t.status(*other), "open");
  }
}

TEST(Evergreen, BytesThatAreNoMessageEndTheSession) {
  Bench t;
  auto x = t.open();
  t.rpc.data(*x, support::grpc_frame("\x0a\x7f"));
  EXPECT_EQ(t.status(*x), "INVALID_ARGUMENT: malformed SessionMessage");
  auto y = t.open();
  t.rpc.data(*y, support::grpc_frame("\x0a\x03\x0a\x01\xff"));
  EXPECT_EQ(t.status(*y), "INVALID_ARGUMENT: NodeFragment.id is not UTF-8");
}

TEST(Evergreen, AClientThatEndsTooEarlyHearsWhatIsMissing) {
  Bench t;
  auto x = t.open();
  t.send(*x, generate("p", "r") + "node_fragments { id: 'p' child_ids: 'q' }");
  t.rpc.end(*x);
  EXPECT_EQ(t.status(*x),
            "FAILED_PRECONDITION: the client has ended the session, but node 'q', fragment 0 has not come");
}

TEST(Evergreen, AModelThatFailsEndsTheSessionUnlessTheActionHasAStatus) {
  Bench t;
  auto x = t.open();
  t.send(*x, generate("p", "r", "outputs { name: 'status' id: 's' }") + text_leaf("p", "hello") +
                 "actions { name: 'ECHO' inputs { name: 'x' id: 'r' } outputs { name: 'x' id: 'e' } outputs { name: "
                 "'status' id: 'es' } }");
  t.chat->say(t.chat->held.at(0), {msg::Token{'H', 30, false, nullptr}});
  t.chat->say(t.chat->held.at(0), {msg::Failed{base::failure(base::Code::kUnavailable, "no room")}});
  t.turn();
  EXPECT_EQ(t.leaf(*x, "s"), "{\"code\":14,\"message\":\"action GENERATE: no room\"}");
  EXPECT_EQ(t.leaf(*x, "r"), "H");
  EXPECT_EQ(t.leaf(*x, "es"), "{\"code\":9,\"message\":\"action ECHO: node 'r': action GENERATE: no room\"}");
  t.rpc.end(*x);
  EXPECT_EQ(t.status(*x), "");

  auto y = t.open();
  t.send(*y, generate("p", "r") + text_leaf("p", "hello"));
  t.chat->say(t.chat->held.at(0), {msg::Failed{base::failure(base::Code::kUnavailable, "no room")}});
  t.turn();
  EXPECT_EQ(t.status(*y), "UNAVAILABLE: action GENERATE: no room");
}

// --- flow ------------------------------------------------------------------------------------------------------------

TEST(Evergreen, ASlowReaderPausesGeneration) {
  Bench t;
  auto x = t.open();
  t.send(*x, generate("p", "r") + text_leaf("p", "hello"));
  msg::Call* call = t.chat->held.at(0);
  int32_t credit = call->credit;
  EXPECT_LT(credit, 1000);
  t.chat->say(call, {msg::Token{'a', 30, false, nullptr}});
  t.turn();
  EXPECT_EQ(call->credit, credit + 1) << "paid back at once (the fake engine takes none)";
  x->fake_backlog = wire::Exchange::kLowWater + 1;
  t.chat->say(call, {msg::Token{'b', 31, false, nullptr}});
  t.turn();
  EXPECT_EQ(call->credit, credit + 1);
  x->fake_backlog = 0;
  x->reader()->on_drain(*x);
  EXPECT_EQ(call->credit, credit + 2);
}

TEST(Evergreen, AReaderThatTakesNothingHoldsTheWriter) {
  Bench t;
  auto x = t.open();
  x->fake_backlog = wire::Exchange::kLowWater + 1;
  t.send(*x, "actions { name: 'ECHO' inputs { name: 'x' id: 'in' } outputs { name: 'x' id: 'out' } }");
  EXPECT_EQ(x->consumed, 0u);
  x->fake_backlog = 0;
  x->reader()->on_drain(*x);
  t.rpc.advance(*x, 1s);
  EXPECT_GT(x->consumed, 0u);
}

TEST(Evergreen, TheClientsLeavingCancelsWhatRuns) {
  Bench t;
  msg::Call* call;
  {
    auto x = t.open();
    t.send(*x, generate("p", "r") + text_leaf("p", "hello"));
    call = t.chat->held.at(0);
    EXPECT_FALSE(call->cancelled);
  }
  EXPECT_TRUE(call->cancelled);
}

// --- extensions ------------------------------------------------------------------------------------------------------

TEST(Evergreen, CancelEndsAnActionAndLeavesWhatItHasSaid) {
  Bench t;
  auto x = t.open();
  t.send(*x, generate("p", "r") + text_leaf("p", "hello"));
  msg::Call* call = t.chat->held.at(0);
  t.chat->say(call, {msg::Token{'a', 30, false, nullptr}});
  t.turn();
  t.send(*x, "actions { name: 'CANCEL' inputs { name: 'output' id: 'r' } }");
  EXPECT_TRUE(call->cancelled);
  EXPECT_EQ(t.leaf(*x, "r"), "a");
  t.rpc.end(*x);
  EXPECT_EQ(t.status(*x), "");
}

TEST(Evergreen, ADroppedNodeIsGone) {
  Bench t;
  auto x = t.open();
  t.send(*x, text_leaf("a", "A") + "actions { name: 'DROP' inputs { name: 'node' id: 'a' } }");
  t.send(*x, text_leaf("a", "again"));
  t.send(*x, "actions { name: 'ECHO' inputs { name: 'x' id: 'a' } outputs { name: 'x' id: 'e' } }");
  EXPECT_EQ(t.leaf(*x, "e"), "again");
}

TEST(Evergreen, ANodeLivesNoLongerThanItsTimeToLive) {
  Bench t;
  auto x = t.open();
  auto m = t.parse("actions { name: 'SET_TTL' inputs { name: 'node' id: 'p' } }" + text_leaf("a", "A") +
                   "node_fragments { id: 'p' child_ids: 'a' }");
  v1::TtlConfig ttl;
  ttl.set_milliseconds(500);
  add_config(m, ttl);
  t.send(*x, m);
  t.rpc.env.advance(400ms);
  t.send(*x, "actions { name: 'ECHO' inputs { name: 'x' id: 'a' } outputs { name: 'x' id: 'e' } }");
  EXPECT_EQ(t.leaf(*x, "e"), "A");
  t.rpc.env.advance(200ms);
  t.send(*x, "actions { name: 'DROP' inputs { name: 'node' id: 'a' } }");
  EXPECT_EQ(t.status(*x), "NOT_FOUND: action DROP: there is no node 'a'");
}

// --- references ------------------------------------------------------------------------------------------------------

// --- the other carriers ----------------------------------------------------------------------------------------------

TEST(Evergreen, LinesOfJsonDoTheSame) {
  Bench t;
  auto x = t.open_http("POST", {});
  EXPECT_TRUE(x->headed);
  std::string lines =
      "{\"actions\":[{\"name\":\"ECHO\",\"inputs\":[{\"name\":\"x\",\"id\":\"in\"}],\"outputs\":[{\"name\":\"x\","
      "\"id\":"
      "\"out\"}]}]}\n\n{\"nodeFragments\":[{\"id\":\"in\",\"continued\":true,\"chunkFragment\":{\"metadata\":{"
      "\"mimetype\":"
      "\"text/plain\"},\"data\":\"aGVsbG8=\"}}]}\r\n";
  for (char c : lines) t.rpc.data(*x, {&c, 1});
  EXPECT_EQ(x->sent,
            "{\"nodeFragments\":[{\"id\":\"out\",\"continued\":true,\"chunkFragment\":{\"metadata\":{\"mimetype\":"
            "\"text/plain\"},\"data\":\"aGVsbG8=\"}}]}\n");
  EXPECT_EQ(x->consumed, lines.size());
  t.rpc.data(*x, "{\"node_fragments\":[{\"id\":\"in\",\"seq\":1}]}");  // no line end
  x->sent.clear();
  t.rpc.end(*x);
  EXPECT_EQ(x->sent, "{\"nodeFragments\":[{\"id\":\"out\",\"seq\":1,\"chunkFragment\":{\"data\":\"\"}}]}\n");
  EXPECT_TRUE(x->ended);
}

TEST(Evergreen, AFailureIsTheLastLine) {
  Bench t;
  auto x = t.open_http("POST", {});
  t.rpc.data(*x, "{\"nodeFragments\":[{\"id\":\"a\",\"seq\":-1}]}\n{}");
  EXPECT_EQ(x->sent,
            "{\"error\":{\"code\":3,\"status\":\"INVALID_ARGUMENT\",\"message\":\"node 'a', fragment -1: a sequence "
            "number must not be negative\"}}\n");
  EXPECT_TRUE(x->ended);
  auto y = t.open_http("POST", {});
  t.rpc.data(*y, "\nnonsense\n");
  EXPECT_NE(y->sent.find("\"message\":\"line 1: "), std::string::npos);
}

TEST(Evergreen, AWebSocketSpeaksJsonOrProtobufAsItsClientDoes) {
  Bench t;
  auto x = t.open_http("GET", kUpgrade);
  EXPECT_EQ(x->response.status, 101);
  std::string json =
      "{\"actions\":[{\"name\":\"ECHO\",\"inputs\":[{\"name\":\"x\",\"id\":\"in\"}],\"outputs\":[{\"name\":"
      "\"x\",\"id\":\"out\"}]}],\"nodeFragments\":[{\"id\":\"in\",\"continued\":true,\"chunkFragment\":{"
      "\"metadata\":{\"mimetype\":\"a/b\"},\"data\":\"aGk=\"}}]}";
  t.rpc.data(*x, frame(0x81, json));
  EXPECT_EQ(x->sent.substr(2),
            "{\"nodeFragments\":[{\"id\":\"out\",\"continued\":true,\"chunkFragment\":{\"metadata\":{"
            "\"mimetype\":\"a/b\"},\"data\":\"aGk=\"}}]}");
  x->sent.clear();
  t.rpc.data(
      *x, frame(0x82, t.parse("node_fragments { id: 'in' seq: 1 chunk_fragment { data: '!' } }").SerializeAsString()));
  EXPECT_EQ(x->sent[0], char(0x82));
  x->sent.clear();
  t.rpc.data(*x, frame(0x88, std::string("\x03\xe8", 2)));
  EXPECT_EQ(x->sent, std::string("\x88\x02\x03\xe8", 4));
  EXPECT_TRUE(x->ended);
}

TEST(Evergreen, AWebSocketThatBreaksARuleIsToldAndClosed) {
  const std::vector<std::pair<std::string, int>> table{
      {frame(0x81, "{\"nodeFragments\":[{\"id\":\"\"}]}"), 1008},
      {frame(0x81, "nonsense"), 1007},
      {frame(0x82, "\x0a\x7f"), 1008},
      {frame(0x81, "\xff"), 1007},
      {std::string("\x81\xff\0\0\0\0\x10\0\0\0\0\0\0\0", 14), 1009},
  };
  for (const auto& [bytes, code] : table) {
    Bench t;
    auto x = t.open_http("GET", kUpgrade);
    t.rpc.data(*x, bytes);
    size_t at = x->sent.rfind(char(0x88));
    ASSERT_NE(at, std::string::npos);
    EXPECT_EQ(uint8_t(x->sent[at + 2]) << 8 | uint8_t(x->sent[at + 3]), code);
    EXPECT_TRUE(x->ended);
  }
}

// --- many ------------------------------------------------------------------------------------------------------------

TEST(Evergreen, AThousandSessionsUsedAndDroppedAtRandomLeaveNothing) {
  Bench t;  // its destructor looks for Calls and timers
  std::mt19937 random{1};
  std::vector<Bench::Opened> open;
  const std::vector<std::string> says{
      generate("p", "r") + text_leaf("p", "hello"),
      generate("r", "r2"),
      "actions { name: 'ECHO' inputs { name: 'x' id: 'r' } outputs { name: 'x' id: 'e' } }",
      "node_fragments { id: 'p' child_ids: 'q' }",
      text_leaf("q", "x"),
      "node_fragments { id: 'z' continued: true seq: 3 chunk_fragment { data: 'ahead' } }",
      "actions { name: 'CANCEL' inputs { name: 'output' id: 'r' } }",
      "actions { name: 'DROP' inputs { name: 'tree' id: 'p' } }",
      "actions { name: 'SET_TTL' inputs { name: 'node' id: 'p' } configs { type_url: "
      "'type.googleapis.com/weir.evergreen.v1.TtlConfig' value: '\\010\\001' } }",
  };
  for (int i = 0; i < 1000; ++i) {
    open.push_back(i % 3 == 0 ? t.open_http("POST", {}) : t.open());
    for (size_t n = random() % 6; n-- > 0;) {
      auto& x = *open[random() % open.size()];
      if (x.request().method == "POST" && x.request().target == "/evergreen/v2/session")
        t.rpc.data(x, "{\"nodeFragments\":[{\"id\":\"a\",\"childIds\":[\"b\"]}]}\n");
      else
        t.send(x, says[random() % says.size()]);
    }
    if (!t.chat->held.empty() && random() % 2) {
      msg::Call* call = t.chat->held[random() % t.chat->held.size()];
      t.chat->say(call, {msg::Token{'x', 1, false, nullptr}});
      if (random() % 2) t.chat->say(call, {msg::Done{1, 0, 1, msg::Finish::kLength, 0}});
      t.turn();
    }
    if (open.size() > 20) {
      size_t gone = random() % open.size();
      std::swap(open[gone], open.back());
      if (random() % 2) t.rpc.end(*open.back());
      open.pop_back();
    }
    t.rpc.env.advance(1ms);
  }
}

}  // namespace
}  // namespace weir::evergreen
