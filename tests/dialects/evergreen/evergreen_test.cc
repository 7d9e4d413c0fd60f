// Actions but GENERATE, what is refused, flow.
#include <random>

#include "bench.h"

namespace weir::evergreen {
namespace {

using namespace std::chrono_literals;

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

TEST(Evergreen, AnEchoOfOneNodeToOneOutputNeedsNoNamesAlsoWithAStatus) {
  Bench t;
  auto x = t.open();
  t.send(*x,
         "actions { name: 'ECHO' inputs { name: 'x' id: 'in' } outputs { name: 'status' id: 's' } outputs { name: 'y' "
         "id: 'out' } }" +
             text_leaf("in", "A"));
  EXPECT_EQ(t.leaf(*x, "out"), "A");
  EXPECT_EQ(t.leaf(*x, "s"), "{\"code\":0,\"message\":\"\"}");
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
  EXPECT_EQ(t.tensors["add"].seen.at(0), "add/1 rows=1 | a INT32 [2] [1,2] | b INT32 [2] [3,4] | wants y");
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
  t.chat->emit(call, {msg::Outputs{support::parse_tensors("e FP32 [2] [1,0]"), {}, true}});
  t.turn();
  EXPECT_EQ(t.leaf(*x, "e").size(), 8u);
}

TEST(Evergreen, ATargetIsAModelOrAVersionOfIt) {
  Bench t;
  auto x = t.open();
  int n = 0;
  for (const std::string target : {"", "chat", "chat/1", "chat/versions/1", "models/chat", "models/chat/versions/1"}) {
    const std::string id = "k" + std::to_string(n++);
    t.send(*x, text_leaf("p", "low") +
                   "actions { name: 'TOKENIZE' inputs { name: 'text' id: 'p' } outputs { name: "
                   "'tokens' id: '" +
                   id + "' } target_spec { id: '" + target + "' } }");
    EXPECT_EQ(t.leaf(*x, id).size(), 8u) << target;
  }
  t.send(*x, "actions { name: 'TOKENIZE' inputs { name: 'text' id: 'p' } target_spec { id: 'chat/2' } }");
  EXPECT_EQ(t.status(*x).substr(0, 9), "NOT_FOUND");
}

// --- what is refused -------------------------------------------------------------------------------------------------

TEST(Evergreen, FailuresEndTheSessionAndNameWhatWasWrong) {
  const std::vector<std::pair<std::string, std::string>> table{
      {"actions { name: 'DANCE' }",
       "NOT_FOUND: action DANCE: there is no such action; there are GENERATE, INFER, EMBED, TOKENIZE, ECHO, DROP, "
       "SET_TTL, CANCEL, LIST_ACTIONS"},
      {"actions { name: 'GENERATE' inputs { name: 'prompt' id: 'p' } target_spec { id: 'chad' } }",
       "NOT_FOUND: action GENERATE: Request for unknown model: 'chad' is not found; did you mean 'chat'?"},
      {"actions { name: 'GENERATE' inputs { name: 'prompt' id: 'p' } target_spec { id: 'meta-llama/Llama-3' } }",
       "NOT_FOUND: action GENERATE: Request for unknown model: 'meta-llama/Llama-3' is not found"},
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
      {generate("p", "r") + "node_fragments { id: 'p' chunk_fragment { metadata { mimetype: 'text/plain' role: '" +
           std::string(65, 'k') + "' } data: 'x' } }",
       "INVALID_ARGUMENT: action GENERATE: node 'p': a role has at most 64 bytes"},
      {"actions { name: 'ECHO' inputs { name: 'x' id: 'a' } inputs { name: 'x' id: 'b' } outputs { name: 'x' id: 'e' } "
       "}" +
           text_leaf("a", "A") + text_leaf("b", "B"),
       "INVALID_ARGUMENT: action ECHO: input 'x' is named twice"},
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
    EXPECT_TRUE(t.fragments(*x).empty()) << "nothing is written before a refusal";
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
  t.chat->emit(t.chat->held.at(0), {msg::Token{'H', 30, false, nullptr}});
  t.chat->emit(t.chat->held.at(0), {msg::Failed{base::failure(base::Code::kUnavailable, "no room")}});
  t.turn();
  EXPECT_EQ(t.leaf(*x, "s"), "{\"code\":14,\"message\":\"action GENERATE: no room\"}");
  EXPECT_EQ(t.leaf(*x, "r"), "H");
  EXPECT_EQ(t.leaf(*x, "es"), "{\"code\":9,\"message\":\"action ECHO: node 'r': action GENERATE: no room\"}");
  t.rpc.end(*x);
  EXPECT_EQ(t.status(*x), "");

  auto y = t.open();
  t.send(*y, generate("p", "r") + text_leaf("p", "hello"));
  t.chat->emit(t.chat->held.at(0), {msg::Failed{base::failure(base::Code::kUnavailable, "no room")}});
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
  for (uint32_t i = 0; i < 16; ++i) t.chat->emit(call, {msg::Token{'a', 30 + i, false, nullptr}});
  t.turn();
  EXPECT_EQ(call->credit, credit + 16) << "the fake engine takes none";
  x->fake_backlog = wire::Exchange::kLowWater + 1;
  for (uint32_t i = 0; i < 16; ++i) t.chat->emit(call, {msg::Token{'b', 46 + i, false, nullptr}});
  t.turn();
  EXPECT_EQ(call->credit, credit + 16);
  x->fake_backlog = 0;
  x->listener()->on_drain(*x);
  EXPECT_EQ(call->credit, credit + 32);
}

TEST(Evergreen, AReaderThatTakesNothingHoldsTheWriter) {
  Bench t;
  auto x = t.open();
  x->fake_backlog = wire::Exchange::kLowWater + 1;
  t.send(*x, "actions { name: 'ECHO' inputs { name: 'x' id: 'in' } outputs { name: 'x' id: 'out' } }");
  EXPECT_EQ(x->consumed, 0u);
  x->fake_backlog = 0;
  x->listener()->on_drain(*x);
  t.rpc.advance(*x, 1s);
  EXPECT_GT(x->consumed, 0u);
}

// The client has ended its side, and has read when that is told, in a turn before the one of on_drain().
TEST(Evergreen, WhatASlowReaderHasNotTakenIsNotMissing) {
  Bench t;
  auto x = t.open();
  x->reads = false;
  pb::SessionMessage m;
  for (int i = 0; i < 8; ++i) {
    auto& f = *m.add_node_fragments();
    f.set_id("in"), f.set_seq(i), f.set_continued(i < 7);
    f.mutable_chunk_fragment()->mutable_metadata()->set_mimetype("a/b");
    f.mutable_chunk_fragment()->set_data(std::string(100 << 10, char('0' + i)));
  }
  t.send(*x, m);
  t.send(*x, "actions { name: 'ECHO' inputs { name: 'x' id: 'in' } outputs { name: 'x' id: 'out' } }");
  t.send(*x, text_leaf("other", "is held with the end"));
  t.rpc.end(*x);
  for (int i = 0; i < 8 && !x->ended; ++i) {
    x->fake_backlog = 0;
    t.rpc.advance(*x, 20ms);
    if (!x->ended) x->listener()->on_drain(*x);
  }
  EXPECT_EQ(t.status(*x), "");
  EXPECT_EQ(t.leaf(*x, "out").size(), size_t(800) << 10);
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

TEST(Evergreen, CancelEndsAnActionAndLeavesWhatItHasSaid) {
  Bench t;
  auto x = t.open();
  t.send(*x, generate("p", "r") + text_leaf("p", "hello"));
  msg::Call* call = t.chat->held.at(0);
  t.chat->emit(call, {msg::Token{'a', 30, false, nullptr}});
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
      t.chat->emit(call, {msg::Token{'x', 1, false, nullptr}});
      if (random() % 2) t.chat->emit(call, {msg::Done{1, 0, 1, msg::Finish::kLength, 0}});
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
