// Fragments and their graph: what is refused, and what things cost.
#include "dialects/evergreen/graph/node_graph.h"

#include <algorithm>
#include <random>

#include "fixture.h"

namespace weir::evergreen {
namespace {

using base::Code;

TEST(NodeGraph, ChunksAreJoinedInOrderOfTheirNumbers) {
  Graph g{{}};
  EXPECT_EQ(g.refused(leaf("a", "world", 2)), "");
  EXPECT_EQ(g.refused(leaf("a", "hello", 0, true)), "");
  EXPECT_EQ(flat(g, "a"), "hello…");
  EXPECT_EQ(g.refused(leaf("a", " ", 1, true)), "");
  EXPECT_EQ(flat(g, "a"), "hello world");
  EXPECT_TRUE(g.find("a")->complete());
}

TEST(NodeGraph, ALongIdIsCutBetweenCharactersWhereItIsShown) {
  Graph g{{}};
  std::string text = g.refused(leaf(std::string(79, 'n') + "\xc3\xa9", "x", -1));
  EXPECT_NE(text.find(std::string(79, 'n') + "…"), std::string::npos) << text;
}

TEST(NodeGraph, ChildrenMayComeBeforeOrAfterTheirParentAndBelongToMany) {
  Graph g{{}};
  EXPECT_EQ(g.refused(branch("p", {"q", "x"}, 1)), "");
  EXPECT_EQ(g.refused(leaf("x", "X")), "");
  EXPECT_EQ(g.refused(branch("p", {"x"}, 0, true)), "");
  EXPECT_EQ(g.refused(branch("q", {"x", "x"})), "");
  EXPECT_EQ(flat(g, "p"), "XXXX");
  EXPECT_EQ(g.flatten_budget().measure(*g.find("p"))->bytes, 4u);
}

TEST(NodeGraph, OfEqualNumbersTheFirstCountsWhateverTheOthersSay) {
  Graph g{{}};
  EXPECT_EQ(g.refused(leaf("a", "one", 0, true)), "");
  EXPECT_EQ(*g.send(leaf("a", "two")), NodeGraph::Fate::kDuplicate);
  EXPECT_EQ(*g.send(branch("a", {"a"})), NodeGraph::Fate::kDuplicate);
  EXPECT_EQ(g.refused(leaf("a", "three", 2)), "");
  EXPECT_EQ(*g.send(leaf("a", "four", 2, true)), NodeGraph::Fate::kDuplicate);
  EXPECT_EQ(g.refused(leaf("a", "-", 1, true)), "");
  EXPECT_EQ(flat(g, "a"), "one-three");
}

TEST(NodeGraph, NothingMayLieBeyondTheFinalFragment) {
  {
    Graph g{{}};
    g.refused(leaf("a", "x", 1));
    EXPECT_EQ(g.refused(leaf("a", "y", 2)), "INVALID_ARGUMENT: node 'a', fragment 2: the node's final fragment is 1");
  }
  Graph g{{}};
  g.refused(leaf("a", "x", 5, true));
  EXPECT_EQ(g.refused(leaf("a", "y", 3)),
            "INVALID_ARGUMENT: node 'a', fragment 3: it is final, but fragment 5 has come");
}

TEST(NodeGraph, AnEmptyFinalFragmentEndsANode) {
  Graph g{{}};
  g.refused(leaf("a", "x", 0, true));
  EXPECT_EQ(g.refused(empty("a", 1)), "");
  EXPECT_EQ(flat(g, "a"), "x");
  EXPECT_EQ(g.refused(empty("b")), "");
  EXPECT_EQ(flat(g, "b"), "");
}

TEST(NodeGraph, AFragmentMayHaveNeitherChunkNorChildren) {
  auto nothing = [](std::string node, int64_t seq) {
    Sent s = empty(std::move(node), seq);
    s.continued = true;
    return s;
  };
  Sent first = leaf("a", "x", 2, true);
  first.metadata = &kText;
  const std::vector<Sent> all{nothing("a", 0), nothing("a", 1), first, nothing("a", 3), leaf("a", "y", 4)};
  std::vector<size_t> order{0, 1, 2, 3, 4};
  do {
    Graph g{{}};
    for (size_t i : order) ASSERT_EQ(g.refused(all[i]), "");
    EXPECT_EQ(flat(g, "a"), "xy");
    EXPECT_EQ(g.find("a")->metadata()->mimetype, "text/plain");
  } while (std::next_permutation(order.begin(), order.end()));
  Graph g{{}};
  for (const Sent& s : {nothing("b", 0), branch("b", {"c"}, 1, true), empty("b", 2), leaf("c", "z")})
    EXPECT_EQ(g.refused(s), "");
  EXPECT_EQ(flat(g, "b"), "z");
}

TEST(NodeGraph, TheFirstChunkNeedsMetadataWhereverItIs) {
  Sent nothing = empty("a");
  nothing.continued = true;
  Sent second = leaf("a", "x", 1, true), third = leaf("a", "y", 2);
  third.metadata = &kText;
  for (bool reversed : {false, true}) {
    Graph g{{}};
    std::vector<Sent> all{nothing, second, third};
    if (reversed) std::reverse(all.begin(), all.end());
    std::string said;
    for (size_t i = 0; i < 3 && said.empty(); ++i) said = g.refused(all[i]);
    EXPECT_EQ(said, "INVALID_ARGUMENT: node 'a', fragment 1: the first chunk needs metadata");
  }
}

// By it a client library ends a stream, whatever was in it.
TEST(NodeGraph, AnEmptyChunkOfNoParticularTypeContradictsNothing) {
  const Metadata bytes{"application/octet-stream", "", "", ""}, user{"text/plain", "USER", "", ""};
  Sent first = leaf("a", "x", 0, true), closing = leaf("a", "", 1, true);
  first.metadata = &user, closing.metadata = &bytes;
  const std::vector<Sent> all{first, closing, empty("a", 2)};
  std::vector<size_t> order{0, 1, 2};
  do {
    Graph g{{}};
    for (size_t i : order) ASSERT_EQ(g.refused(all[i]), "");
    EXPECT_EQ(flat(g, "a"), "x");
    EXPECT_EQ(g.find("a")->metadata()->role, "USER");
  } while (std::next_permutation(order.begin(), order.end()));
  Graph g{{}};
  Sent loud = closing;
  loud.data = "y";
  g.refused(first);
  EXPECT_NE(g.refused(loud).find("contradicts"), std::string::npos) << "with bytes it would be content of two types";
  closing.node = "b";
  g.refused(branch("b", {"a"}, 0, true));
  EXPECT_EQ(g.refused(closing), "");
  closing.node = "c", closing.seq = 0;
  EXPECT_EQ(g.refused(closing), "");
  EXPECT_EQ(g.find("c")->metadata()->mimetype, "application/octet-stream") << "alone it says what the node is";
}

TEST(NodeGraph, FragmentsInReverseOrderAreBoundedByTheirBytes) {
  constexpr int64_t kMany = 20'000;
  GraphLimits limits;
  limits.bytes = 4 << 20;
  Graph g{limits};
  for (int64_t seq = kMany; seq-- > 0;) ASSERT_EQ(g.refused(leaf("a", "x", seq, seq + 1 < kMany)), "") << seq;
  EXPECT_EQ(flat(g, "a"), std::string(kMany, 'x'));
  limits.bytes = 1 << 20;
  Graph h{limits};
  std::string said;
  for (int64_t seq = kMany; seq-- > 0 && said.empty();) said = h.refused(leaf("a", "x", seq, seq + 1 < kMany));
  EXPECT_NE(said.find("the session's content passes 1048576 bytes"), std::string::npos) << said;
}

TEST(NodeGraph, MetadataComesFirstAndMayBeRepeatedButNotContradicted) {
  const Metadata other{"text/html", "", "", ""};
  Sent again = leaf("a", "y", 1, true);
  again.metadata = &kText;
  {
    Graph g{{}};
    g.refused(leaf("a", "x", 0, true));
    EXPECT_EQ(g.refused(again), "");
    Sent wrong = leaf("a", "z", 2);
    wrong.metadata = &other;
    EXPECT_EQ(g.refused(wrong),
              "INVALID_ARGUMENT: node 'a', fragment 2: its metadata contradicts that of the node's other chunks");
  }
  Graph g{{}};
  g.refused(again);
  Sent first = leaf("a", "x", 0, true);
  first.metadata = &other;
  EXPECT_NE(g.refused(first).find("contradicts"), std::string::npos);
  Graph h{{}};
  first.metadata = nullptr;
  EXPECT_EQ(h.refused(first), "INVALID_ARGUMENT: node 'a', fragment 0: the first chunk needs metadata");
}

TEST(NodeGraph, ANodeIsChunksOrChildren) {
  Graph g{{}};
  g.refused(leaf("a", "x", 0, true));
  EXPECT_NE(g.refused(branch("a", {"b"}, 1)).find("children in a node of chunks"), std::string::npos);
  Graph h{{}};
  h.refused(branch("a", {"b"}, 1, true));
  EXPECT_NE(h.refused(leaf("a", "x", 0, true)).find("a chunk in a node of children"), std::string::npos);
  Graph i{{}};
  Sent both = leaf("a", "x");
  both.children = {"b"};
  EXPECT_NE(i.refused(both).find("not both"), std::string::npos);
}

TEST(NodeGraph, ACycleIsFoundAtTheEdgeThatClosesIt) {
  Graph g{{}};
  EXPECT_EQ(g.refused(branch("a", {"b"})), "");
  EXPECT_EQ(g.refused(branch("b", {"c"}, 7, true)), "");  // an edge counts also before its turn
  EXPECT_EQ(g.refused(branch("c", {"d", "a"}, 3, true)),
            "INVALID_ARGUMENT: node 'c', fragment 3: child 'a' would make the node contain itself");
  Graph h{{}};
  EXPECT_NE(h.refused(branch("a", {"a"})).find("contain itself"), std::string::npos);
}

TEST(NodeGraph, ACycleIsNotTakenForDepth) {
  GraphLimits limits;
  limits.depth = 4;
  Graph g{limits};
  g.refused(branch("a", {"b"}));
  g.refused(branch("b", {"c"}));
  g.refused(branch("c", {"d"}));
  EXPECT_NE(g.refused(branch("d", {"a"})).find("contain itself"), std::string::npos);
  Graph h{limits};
  h.refused(branch("c", {"d"}));
  h.refused(branch("d", {"e"}));
  h.refused(branch("a", {"b"}));
  EXPECT_EQ(h.refused(branch("b", {"c"})), "RESOURCE_EXHAUSTED: node 'b', fragment 0: nodes nest deeper than 4 levels");
}

TEST(NodeGraph, AConversationMayNestOncePerTurnUpToTheLimit) {
  GraphLimits limits;
  limits.nodes = 100'000;
  Graph g{limits};
  std::string all;
  auto turn = [&](uint32_t n) {
    const std::string i = std::to_string(n), before = std::to_string(n - 1);
    g.refused(leaf("q" + i, "?" + i));
    g.refused(leaf("r" + i, "!" + i));
    return g.refused(branch("p" + i, {n == 1 ? "q0" : "p" + before, "r" + before, "q" + i}));
  };
  g.refused(leaf("q0", "?0"));
  g.refused(leaf("r0", "!0"));
  all = "?0";
  const uint32_t most = limits.depth - 1;  // the innermost node is a leaf
  for (uint32_t n = 1; n <= most; ++n) {
    ASSERT_EQ(turn(n), "");
    all += "!" + std::to_string(n - 1) + "?" + std::to_string(n);
  }
  EXPECT_EQ(flat(g, "p" + std::to_string(most)), all);
  EXPECT_EQ(turn(most + 1), "RESOURCE_EXHAUSTED: node 'p4096', fragment 0: nodes nest deeper than 4096 levels");
}

TEST(NodeGraph, ATreeMayComeFromItsRootDownwards) {
  GraphLimits limits;
  Graph g{limits};
  const int deep = 2000;
  for (int n = 1; n < deep; ++n) ASSERT_EQ(g.refused(branch(std::to_string(n), {std::to_string(n + 1)})), "") << n;
  g.refused(leaf(std::to_string(deep), "end"));
  EXPECT_EQ(flat(g, "1"), "end");
  limits.depth = 64;
  Graph h{limits};
  for (int n = 1; n < 64; ++n) ASSERT_EQ(h.refused(branch(std::to_string(n), {std::to_string(n + 1)})), "") << n;
  EXPECT_EQ(h.refused(branch("64", {"x"})),
            "RESOURCE_EXHAUSTED: node '64', fragment 0: nodes nest deeper than 64 levels");
}

TEST(NodeGraph, AnOrderThatIsMadeToBeCostlyIsRefused) {
  GraphLimits limits;
  limits.climbs = 100'000;
  Graph g{limits};
  // Below a node with a thousand parents a chain grows, one step at a time: each raises all of them.
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(g.refused(branch("p" + std::to_string(i), {"0"})), "");
  std::string said;
  int steps = 0;
  for (; said.empty(); ++steps) said = g.refused(branch(std::to_string(steps), {std::to_string(steps + 1)}));
  EXPECT_EQ(said.substr(0, 18), "RESOURCE_EXHAUSTED");
  EXPECT_NE(said.find("costs too much: send long chains from their children up"), std::string::npos);
  EXPECT_GT(steps, 50);
  EXPECT_LT(steps, 150);
}

TEST(NodeGraph, AnEdgeThatCostsTooMuchAloneIsRefused) {
  GraphLimits limits;
  limits.climbs_at_once = 999;
  Graph g{limits};
  for (int i = 0; i < 998; ++i) ASSERT_EQ(g.refused(branch("p" + std::to_string(i), {"0"})), "");
  EXPECT_EQ(g.refused(branch("0", {"1"})), "") << "it raises 998 parents";
  for (int i = 0; i < 2; ++i) ASSERT_EQ(g.refused(branch("q" + std::to_string(i), {"0"})), "");
  EXPECT_EQ(g.refused(branch("1", {"2"})).substr(0, 18), "RESOURCE_EXHAUSTED");
}

TEST(NodeGraph, WhatFitsIsKnownBefore) {
  GraphLimits limits;
  limits.bytes = 10'000;
  Graph g{limits};
  std::mt19937 random{5};
  for (int i = 0;; ++i) {
    const bool is_leaf = random() % 2;
    Sent s = is_leaf ? leaf("n" + std::to_string(i), std::string(random() % 2000, 'x'))
                     : branch("n" + std::to_string(i), {"c" + std::to_string(random() % 9), "d" + std::to_string(i)});
    std::vector<std::string_view> children(s.children.begin(), s.children.end());
    const bool fits =
        g.fits({s.node, s.seq, s.continued, children, s.chunk, s.metadata, base::Bytes::copy_of(s.data), false});
    const std::string said = g.refused(s);
    EXPECT_EQ(fits, said.empty()) << said;
    if (!said.empty()) break;
  }
}

TEST(NodeGraph, ManyEdgesToOneChildGoTogether) {
  Graph g{{}};
  const std::vector<std::string> same(200'000, "c");
  EXPECT_EQ(g.refused(branch("a", same)), "");
  EXPECT_EQ(g.refused(branch("b", {"c"})), "");
  EXPECT_EQ(g.refused(leaf("c", "x")), "");
  EXPECT_TRUE(g.drop(*g.find("a"), NodeGraph::DropScope::kWithChildren).ok());
  EXPECT_EQ(flat(g, "b"), "x");
}

TEST(NodeGraph, ADiamondOf2To40IsMeasuredAndRefusedWithoutWalkingIt) {
  Graph g{{}};
  for (int i = 0; i < 40; ++i) {
    std::string below = std::to_string(i + 1);
    EXPECT_EQ(g.refused(branch(std::to_string(i), {below, below})), "");
  }
  EXPECT_EQ(g.refused(leaf("40", "x")), "");
  EXPECT_EQ(g.flatten_budget().measure(*g.find("0"))->bytes, uint64_t(1) << 40);
  EXPECT_NE(flat(g, "0").find("too large when flattened"), std::string::npos);
}

TEST(NodeGraph, ADiamondThatGrowsUnderACursorIsRefusedAfterTheLimit) {
  GraphLimits limits;
  limits.flattened = 1000;
  Graph g{limits};
  Listener l;
  Cursor c(g, **g.node("0"), l);
  EXPECT_EQ(c.next(), Step::kWait);
  for (int i = 40; i-- > 0;) g.refused(branch(std::to_string(i), {std::to_string(i + 1), std::to_string(i + 1)}));
  g.refused(leaf("40", "x"));
  Step end;
  EXPECT_LE(drain(c, end).size(), 1000u);
  EXPECT_EQ(end, Step::kFailed);
}

TEST(NodeGraph, LimitsNameWhatPassedThem) {
  GraphLimits limits;
  limits.nodes = 2;
  limits.ahead = 3;
  limits.bytes = 10'000;
  Graph g{limits};
  EXPECT_EQ(g.refused(branch("a", {"b", "c"})),
            "RESOURCE_EXHAUSTED: node 'a', fragment 0: child: node 'c': a session has at most 2 nodes");
  Graph h{limits};
  for (int64_t seq : {10, 20, INT32_MAX - 1}) EXPECT_EQ(h.refused(leaf("a", "", seq, true)), "");
  EXPECT_EQ(h.refused(leaf("a", "", INT32_MAX)),
            "RESOURCE_EXHAUSTED: node 'a', fragment 2147483647: more than 3 fragments wait for fragment 0");
  EXPECT_EQ(h.refused(leaf("a", "", 0, true)), "") << "the one that they wait for";
  EXPECT_EQ(h.refused(leaf("a", "", -1)),
            "INVALID_ARGUMENT: node 'a', fragment -1: a sequence number must not be negative");
  Graph i{limits};
  std::string text;
  for (int64_t seq = 0; text.empty(); ++seq) text = i.refused(leaf("a", std::string(1024, 'x'), seq, true));
  EXPECT_EQ(text, "RESOURCE_EXHAUSTED: node 'a', fragment 7: the session's content passes 10000 bytes");
  EXPECT_NE(g.refused(leaf("", "x")).find("must not be empty"), std::string::npos);
}

}  // namespace
}  // namespace weir::evergreen
