// Nodes as bytes: what is read is the graph that was written.
#include "dialects/evergreen/graph_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "base/fake_env.h"
#include "dialects/evergreen/graph/cursor.h"
#include "dialects/evergreen/options.h"
#include "marshal/pb_wire.h"
#include "session/handover.h"
#include "support/cpu_time.h"
#include "support/sanitizers.h"

namespace weir::evergreen {
namespace {

using base::Code;
using base::Status;
using namespace std::chrono_literals;

const LeftOut kNothingLeftOut = [](const Node&) { return false; };
const Metadata kText{"text/plain", "user", "a.txt", {}};

// All that there is of a node, on a line.
std::string shown(const Node& node) {
  std::string out = node.claimed() ? "made" : "sent";
  if (node.dropped()) return "dropped";
  if (node.metadata())
    out += " " + node.metadata()->mimetype + "," + node.metadata()->role + "," + node.metadata()->file_name + "," +
           node.metadata()->other;
  for (size_t i = 0; i < node.parts(); ++i) {
    const auto part = node.part(i);
    out += part.chunk ? (part.described ? " !" : " :") + std::string(part.data.view()) : " -";
    for (size_t n = 0; n < part.children; ++n) out.append(" ").append(node.child(i, n));
  }
  return out;
}
std::map<std::string, std::string> shown(const NodeGraph& graph) {
  std::map<std::string, std::string> out;
  graph.each([&](const Node& node) {
    if (node.complete() || node.dropped()) out[std::string(node.id())] = shown(node);
    return true;
  });
  return out;
}

Status read(const std::string& text, NodeGraph& graph, std::vector<NodeTime>* times = nullptr) {
  GraphStateReader reader(graph, nullptr);
  Status s = reader.begin(text);
  if (s.ok()) s = reader.go_on();
  if (s.ok() && !reader.done()) return base::failure(Code::kUnknown, "it has not read all");
  if (times) *times = reader.times();
  return s;
}

void send(NodeGraph& graph, const std::string& id, std::string_view data, int64_t seq = 0, bool continued = false) {
  Fragment f;
  f.node = id, f.seq = seq, f.continued = continued;
  f.has_chunk = true, f.data = base::Bytes::copy_of(data);
  if (seq == 0) f.metadata = &kText;
  ASSERT_TRUE(graph.add(f));
}
void send_branch(NodeGraph& graph, const std::string& id, std::vector<std::string_view> children) {
  Fragment f;
  f.node = id, f.children = children;
  ASSERT_TRUE(graph.add(f));
}
void make(NodeGraph& graph, const std::string& id, std::vector<std::string> data, bool whole = true) {
  auto node = graph.claim(id);
  ASSERT_TRUE(node) << node.error().text;
  for (size_t i = 0; i < data.size(); ++i) {
    Fragment f;
    f.has_chunk = true, f.data = base::Bytes::copy_of(data[i]);
    f.metadata = i == 0 ? &kText : nullptr;
    f.continued = !whole || i + 1 < data.size();
    ASSERT_TRUE(graph.append(**node, f).ok());
  }
}

// Random graphs: leaves and branches in pieces, sent and made, some incomplete, some dropped, with times to live.
class RandomGraph : public testing::TestWithParam<int> {};
TEST_P(RandomGraph, IsReadAsItWasWritten) {
  std::mt19937 random{unsigned(GetParam())};
  auto below = [&](size_t n) { return size_t(random() % n); };
  NodeGraph graph{{}};
  const size_t nodes = 1 + below(30);
  for (size_t i = nodes; i-- > 0;) {  // node i has children of higher numbers only
    const std::string id = "node " + std::to_string(i) + std::string(below(3), '%');
    const bool is_leaf = i + 1 == nodes || below(3) > 0, is_made = below(3) == 0, whole = below(5) > 0;
    const size_t pieces = 1 + below(5);
    if (is_made && is_leaf) {
      std::vector<std::string> data(pieces);
      for (auto& d : data) d = std::string(below(20), char('a' + below(26)));
      make(graph, id, data, whole);
      if (!whole) graph.fail(*graph.find(id), base::failure(Code::kCancelled, "an action that is not over"));
      continue;
    }
    for (size_t seq = 0; seq < pieces; ++seq) {
      const bool more = !whole || seq + 1 < pieces;
      if (is_leaf) {
        send(graph, id, std::string(below(300), char('a' + below(26))), int64_t(seq), more);
        continue;
      }
      std::vector<std::string> names;
      for (size_t n = below(4); n-- > 0;) names.push_back("node " + std::to_string(i + 1 + below(nodes)));
      Fragment f;
      std::vector<std::string_view> children(names.begin(), names.end());
      f.node = id, f.seq = int64_t(seq), f.continued = more, f.children = children;
      ASSERT_TRUE(graph.add(f));
    }
  }
  for (size_t n = below(4); n-- > 0;) {
    Node* node = graph.find("node " + std::to_string(below(nodes)));
    if (!node || node->open()) continue;
    ASSERT_TRUE(graph.drop(*node, NodeGraph::DropScope::kNode).ok());
  }
  ASSERT_TRUE(graph.deliver().ok());
  std::vector<NodeTime> times, again;
  graph.each([&](const Node& node) {
    if (node.complete() && below(4) == 0)
      times.push_back({std::string(node.id()), std::chrono::milliseconds(below(100000))});
    return true;
  });

  const WrittenState state = write_graph_state(graph, 77s, times, kNothingLeftOut);
  ASSERT_FALSE(state.text.empty());
  NodeGraph other{{}};
  const Status s = read(state.text, other, &again);
  ASSERT_TRUE(s.ok()) << s.text;
  auto want = shown(graph), has = shown(other);
  std::erase_if(want, [&](const auto& one) { return one.second == "dropped" && !has.contains(one.first); });
  EXPECT_EQ(has, want);
  ASSERT_EQ(again.size(), times.size());
  for (size_t i = 0; i < times.size(); ++i) {
    EXPECT_EQ(again[i].node, times[i].node);
    EXPECT_EQ(again[i].left, times[i].left);
  }
  // A state that is cut off anywhere is refused.
  NodeGraph third{{}};
  EXPECT_FALSE(read(state.text.substr(0, below(state.text.size())), third).ok());
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomGraph, testing::Range(0, 300));

TEST(GraphState, WhatIsNotCompleteAndWhatIsLeftOutIsNotThere) {
  NodeGraph graph{{}};
  send(graph, "whole", "abc");
  send(graph, "cut", "abc", 0, true);
  make(graph, "made", {"x", "y"});
  make(graph, "being made", {"x"}, false);
  send(graph, "left out", "abc");
  send_branch(graph, "branch", {"whole", "cut"});
  const auto state = write_graph_state(graph, 5s, {}, [](const Node& node) { return node.id() == "left out"; });
  graph.fail(*graph.find("being made"), base::failure(Code::kCancelled, "over"));
  NodeGraph other{{}};
  ASSERT_TRUE(read(state.text, other).ok());
  EXPECT_EQ(shown(other).size(), 3u);
  EXPECT_FALSE(other.find("being made"));
  EXPECT_FALSE(other.find("left out"));
  EXPECT_FALSE(other.find("cut")->touched()) << "it can be sent again";
  send(other, "cut", "abc");
  // An output stays one: nobody may write to it.
  Fragment f;
  f.node = "made", f.has_chunk = true;
  EXPECT_EQ(other.add(f).error().text, "node 'made', fragment 0: the node is the output of an action");
  EXPECT_TRUE(other.claim("being made"));
  other.fail(*other.find("being made"), base::failure(Code::kCancelled, "over"));
}

// In another order each of them would raise all that are above it, many times.
TEST(GraphState, NestedNodesAreReadInTheOrderThatCostsLeast) {
  constexpr int kBranches = 220;
  NodeGraph graph{{}};
  make(graph, "leaf", {"x"});
  auto made = graph.claim("made");
  ASSERT_TRUE(made);
  const std::vector<std::string_view> leaf{"leaf"};
  Fragment f;
  f.children = leaf;
  ASSERT_TRUE(graph.append(**made, f).ok());
  std::vector<std::string> names{"made"};
  for (int i = 0; i < kBranches; ++i) {
    names.push_back("branch " + std::to_string(i));
    send_branch(graph, names.back(), std::vector<std::string_view>(names.begin(), names.end() - 1));
  }
  GraphLimits limits;
  limits.climbs = kBranches;
  NodeGraph other{limits};
  const Status s = read(write_graph_state(graph, 0s, {}, kNothingLeftOut).text, other);
  ASSERT_TRUE(s.ok()) << s.text;
  EXPECT_EQ(shown(other), shown(graph));
}

// Children are counted before anything is written of them: else a fragment of 16 MiB is copied to find it too long.
TEST(GraphState, ManyLongChildrenAreTooLongBeforeTheyAreWritten) {
  NodeGraph graph{{}};
  const std::string child(1000, 'c');
  send(graph, child, "x");
  send_branch(graph, "branch", std::vector<std::string_view>(16'000, child));
  const double before = support::cpu_seconds();
  EXPECT_TRUE(write_graph_state(graph, 0s, {}, kNothingLeftOut).text.empty());
  EXPECT_LT(support::cpu_seconds() - before, 0.02);
}

TEST(GraphState, ADroppedChildStaysDropped) {
  NodeGraph graph{{}};
  send(graph, "child", "abc");
  send_branch(graph, "parent", {"child"});
  ASSERT_TRUE(graph.drop(*graph.find("child"), NodeGraph::DropScope::kNode).ok());
  NodeGraph other{{}};
  ASSERT_TRUE(read(write_graph_state(graph, 0s, {}, kNothingLeftOut).text, other).ok());
  ASSERT_TRUE(other.find("child"));
  EXPECT_TRUE(other.find("child")->dropped());
}

TEST(GraphState, ALongOneIsNotWritten) {
  GraphLimits limits;
  limits.bytes = 64 << 20;
  NodeGraph long_one{limits};
  for (int i = 0; i < 5; ++i) send(long_one, "n" + std::to_string(i), std::string(1 << 20, 'x'));
  EXPECT_TRUE(write_graph_state(long_one, 9s, {}, kNothingLeftOut).text.empty());
  // Many small parts take as long as a few large ones.
  NodeGraph many{limits};
  for (int i = 0; i < int(kMostStateParts) + 1; ++i) send(many, "leaf", "x", i, true);
  send(many, "leaf", "x", int64_t(kMostStateParts) + 1);
  EXPECT_TRUE(write_graph_state(many, 9s, {}, kNothingLeftOut).text.empty());
}

TEST(GraphState, TheLongestThatIsWrittenIsRead) {
  NodeGraph graph{{}};
  const size_t most = session::Handover::kLargestState - 1000;
  send(graph, "long", std::string(most, 'x'));
  const auto state = write_graph_state(graph, 0s, {}, kNothingLeftOut);
  ASSERT_FALSE(state.text.empty());
  EXPECT_LE(state.text.size(), session::Handover::kLargestState);
  NodeGraph other{{}};
  ASSERT_TRUE(read(state.text, other).ok());
  EXPECT_EQ(other.find("long")->part(0).data.size(), most);
}

TEST(GraphState, AnOutputThatHasTheNameOfAKeptNodeIsTheClientsMistake) {
  for (const bool is_made : {false, true}) {
    NodeGraph graph{{}};
    is_made ? make(graph, "there", {"x"}) : send(graph, "there", "x");
    NodeGraph other{{}};
    ASSERT_TRUE(other.claim("there"));
    const Status s = read(write_graph_state(graph, 0s, {}, kNothingLeftOut).text, other);
    EXPECT_EQ(s.code, Code::kAlreadyExists) << s.text;
    EXPECT_EQ(s.text, "the session has a node 'there' already: choose another name for the output");
    other.fail(*other.find("there"), base::failure(Code::kCancelled, "over"));
  }
}

// States that somebody else has written: each turn of a shard ends after its time, whatever they say.
std::string state_of(const std::string& sent, const std::string& made, size_t times, size_t dropped,
                     const std::string& lines) {
  return "weir-nodes 1\nage 1\nsent " + std::to_string(sent.size()) + "\nmade " + std::to_string(made.size()) +
         "\ntimes " + std::to_string(times) + "\ndropped " + std::to_string(dropped) + "\n\n" + sent + made + lines;
}
std::string fragment(const std::string& id, std::vector<std::string> children, bool chunk = false) {
  OutFragment f;
  f.node = id, f.children = std::move(children);
  if (chunk) f.has_chunk = f.has_metadata = true, f.metadata.mimetype = "a";
  std::string out;
  append_binary(out, f);
  return out;
}

#if defined(WEIR_ASAN) || defined(WEIR_TSAN)
constexpr double kLongestTurn = 0.25;
#else
constexpr double kLongestTurn = 0.025;  // seconds of CPU time
#endif

TEST(GraphState, AHostileOneTakesNoLongTurn) {
  std::string leaves, names, drops;
  for (int i = 0; i < 9'000; ++i) leaves += fragment("n" + std::to_string(i), {}, true);
  for (int i = 0; i < int(kMostStateParts); ++i) names += "n" + std::to_string(i % 9'000) + " 5\n";
  for (int i = 0; i < int(kMostStateParts); ++i) drops += "d" + std::to_string(i) + std::string(90, 'x') + "\n";
  std::string chain, fans;
  for (int i = 4000; i-- > 0;) chain += fragment("c" + std::to_string(i), {"c" + std::to_string(i + 1)});
  for (int i = 0; i < 3; ++i) fans += fragment("f" + std::to_string(i), std::vector<std::string>(10'000, "x"));
  std::vector<std::string> children;
  for (int i = 0; i < 9'000; ++i) children.push_back("child " + std::to_string(i));
  const std::string fan_of_new = fragment("f", children);
  const std::string wide = fragment("w", std::vector<std::string>(1'300'000, "x"));
  std::string numbers, chunks;
  for (int i = 0; i < 2'000'000; ++i) numbers += "\x10\x01", chunks += std::string_view("\x52\0", 2);
  std::string flood, flood_of_chunk, chunk;
  marshal::put_bytes(flood, 1, numbers);
  marshal::put_bytes(chunk, 5, chunks);
  marshal::put_bytes(flood_of_chunk, 1, chunk);
  const std::string states[] = {state_of(leaves, "", kMostStateParts, 0, names),
                                state_of("", leaves, 0, 0, ""),
                                state_of("", "", 0, kMostStateParts, drops),
                                state_of(chain, "", 0, 0, ""),
                                state_of(fans, "", 0, 0, ""),
                                state_of(fan_of_new, "", 0, 0, ""),
                                state_of("", fan_of_new, 0, 0, ""),
                                state_of(wide, "", 0, 0, ""),
                                state_of(flood, "", 0, 0, ""),
                                state_of("", flood_of_chunk, 0, 0, "")};
  for (const auto& state : states) {
    ASSERT_LE(state.size(), session::Handover::kLargestState);
    base::FakeEnv env;
    TurnBudget turn(env, Options().steps_per_turn);
    NodeGraph graph({}, nullptr, &turn);
    GraphStateReader reader(graph, &turn);
    Status s;
    int turns = 0;
    double longest = 0;
    auto timed = [&](auto work) {
      const double before = support::cpu_seconds();
      work();
      longest = std::max(longest, support::cpu_seconds() - before);
    };
    timed([&, its = state]() mutable { s = reader.begin(std::move(its)); });
    struct Waiter final : TurnBudget::Waiter {
      explicit Waiter(std::function<void()> w) : work(std::move(w)) {}
      void on_turn() override { work(); }
      std::function<void()> work;
    } waiter([&] { timed([&] { s = reader.go_on(); }); });
    for (; s.ok() && !reader.done() && turns < 10'000; ++turns) {
      turn.wait(waiter);
      env.advance(1ms);
    }
    EXPECT_LT(turns, 10'000);
    EXPECT_LT(longest, kLongestTurn) << state.substr(0, 60) << ": " << s.text;
  }
}

TEST(GraphState, IsReadInSlicesOfATurn) {
  base::FakeEnv env;
  TurnBudget turn(env, 50);
  NodeGraph graph{{}};
  for (int i = 0; i < 400; ++i) send(graph, "n" + std::to_string(i), "abc");
  const auto state = write_graph_state(graph, 0s, {}, kNothingLeftOut);
  NodeGraph other({}, nullptr, &turn);
  GraphStateReader reader(other, &turn);
  ASSERT_TRUE(reader.begin(state.text).ok());
  struct Waiter final : TurnBudget::Waiter {
    explicit Waiter(GraphStateReader& r) : reader(r) {}
    void on_turn() override { EXPECT_TRUE(reader.go_on().ok()); }
    GraphStateReader& reader;
  } waiter(reader);
  int turns = 0;
  for (; !reader.done() && turns < 100; ++turns) {
    turn.wait(waiter);
    env.advance(1ms);
    EXPECT_LE(other.nodes(), size_t(turns + 1) * 51);
  }
  EXPECT_GE(turns, 8);
  EXPECT_EQ(shown(other), shown(graph));
}

TEST(GraphState, WhatIsDamagedIsRefusedByName) {
  auto refused = [](const std::string& text) {
    NodeGraph graph{{}};
    const Status s = read(text, graph);
    return s.ok() ? std::string("taken") : std::string(base::name(s.code)) + ": " + s.text;
  };
  const std::string what = "DATA_LOSS: what was kept of the session cannot be read: its ";
  EXPECT_EQ(refused("rubbish"), what + "form");
  EXPECT_EQ(refused("weir-nodes 1\nage x\n"), what + "age");
  EXPECT_EQ(refused("weir-nodes 1\nage 1\nsent x"), what + "nodes");
  EXPECT_EQ(refused("weir-nodes 1\nage 1\nsent 5\nmade 0\ntimes 0\ndropped 0\n\nabc"), what + "nodes");
  EXPECT_EQ(refused("weir-nodes 1\nage 1\nsent 0\nmade 0\ntimes 9999999\ndropped 0\n\n"), what + "times to live");
  EXPECT_EQ(refused("weir-nodes 1\nage 1\nsent 0\nmade 0\ntimes 1\ndropped 0\n\na b"), what + "times to live");
  EXPECT_EQ(refused("weir-nodes 1\nage 1\nsent 0\nmade 0\ntimes 1\ndropped 0\n\nnobody 5\n"), what + "times to live");
  EXPECT_EQ(refused("weir-nodes 1\nage 1\nsent 0\nmade 0\ntimes 0\ndropped 0\n\nmore"), what + "length");
  EXPECT_EQ(refused(std::string(session::Handover::kLargestState + 1, 'x')), what + "length");
  // An action, a reference, and an output that has no end.
  const std::string action("\x12\x02\x12\x00", 4), open("\x0a\x05\x0a\x01\x61\x18\x01", 7);
  const std::string reference("\x0a\x0a\x0a\x01\x61\x2a\x05\x0a\x00\x1a\x01\x78", 12);
  auto with = [](const std::string& sent, const std::string& made) {
    return "weir-nodes 1\nage 1\nsent " + std::to_string(sent.size()) + "\nmade " + std::to_string(made.size()) +
           "\ntimes 0\ndropped 0\n\n" + sent + made;
  };
  EXPECT_EQ(refused(with(action, "")), what + "nodes");
  EXPECT_EQ(refused(with(reference, "")), what + "nodes");
  EXPECT_EQ(refused(with("", open)), what + "nodes");
  EXPECT_EQ(refused(with("", "")), "taken");
}

}  // namespace
}  // namespace weir::evergreen
