// The cost of dropping nodes: in proportion to the edges that go, whatever else there is.
#include <algorithm>
#include <optional>
#include <random>

#include "base/fake_env.h"
#include "fixture.h"
#include "support/cpu_time.h"

namespace weir::evergreen {
namespace {

// n parents, each with `edges` edges to one child, and a root above them.
void parents_of_one(Graph& g, size_t n, size_t edges) {
  std::vector<std::string> names;
  for (size_t i = 0; i < n; ++i) {
    names.push_back("p" + std::to_string(i));
    ASSERT_EQ(g.refused(branch(names.back(), std::vector<std::string>(edges, "child"))), "");
  }
  ASSERT_EQ(g.refused(leaf("child", "x")), "");
  ASSERT_EQ(g.refused(branch("root", names)), "");
}

// The steps are counted, so they grow with the edges exactly; the CPU time shows that there is no work beside them.
TEST(NodeGraph, DroppingIsLinearInTheEdgesThatGo) {
  GraphLimits limits;
  limits.bytes = 1 << 30;
  for (size_t edges : {1, 10}) {
    double cpu = 0;
    auto steps_of = [&](size_t n) {
      base::FakeEnv env;
      TurnBudget turn_budget(env, UINT64_MAX);
      std::optional<Graph> g(std::in_place, limits, nullptr, &turn_budget);
      parents_of_one(*g, n, edges);
      const uint64_t before = turn_budget.total();
      cpu =
          support::cpu_of([&] { ASSERT_TRUE(g->drop(*g->find("root"), NodeGraph::DropScope::kWithChildren).ok()); }, 1);
      EXPECT_EQ(g->nodes(), 0u);
      EXPECT_EQ(g->memory().used(), 0u);
      return double(turn_budget.total() - before);
    };
    EXPECT_NEAR(steps_of(8000) / steps_of(2000), 4, 0.1) << edges;
    steps_of(9000);
    EXPECT_LT(cpu, 0.5) << edges;  // seconds; quadratic work takes several
  }
}

TEST(NodeGraph, DroppingEachParentAloneCostsItsOwnEdges) {
  base::FakeEnv env;
  TurnBudget turn_budget(env, UINT64_MAX);
  GraphLimits limits;
  Graph g(limits, nullptr, &turn_budget);
  parents_of_one(g, 2000, 64);
  const uint64_t before = turn_budget.total();
  for (size_t i = 0; i < 2000; ++i)
    ASSERT_TRUE(g.drop(*g.find("p" + std::to_string(i)), NodeGraph::DropScope::kNode).ok());
  EXPECT_EQ(turn_budget.total() - before, 2000u * 3) << "64 edges are two steps, and one for the fragment";
}

TEST(NodeGraph, EdgesAreKnownAtBothEndsWhateverTheOrderInWhichTheyGo) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    Graph g{{}};
    std::mt19937 random{seed};
    for (int i = 0; i < 40; ++i) {
      std::vector<std::string> children;
      for (uint32_t k = random() % 8; k > 0; --k) children.push_back("c" + std::to_string(random() % 10));
      if (!children.empty()) {
        ASSERT_EQ(g.refused(branch("p" + std::to_string(i), children)), "");
      }
    }
    for (int i = 0; i < 10; ++i) ASSERT_EQ(g.refused(leaf("c" + std::to_string(i), "x")), "");
    std::vector<std::string> order;
    for (int i = 0; i < 40; ++i) order.push_back("p" + std::to_string(i));
    std::shuffle(order.begin(), order.end(), random);
    for (const auto& id : order)
      if (Node* node = g.find(id)) {
        ASSERT_TRUE(g.drop(*node, NodeGraph::DropScope::kWithChildren).ok());
      }
    for (int i = 0; i < 10; ++i)
      if (Node* node = g.find("c" + std::to_string(i))) {
        ASSERT_TRUE(g.drop(*node, NodeGraph::DropScope::kNode).ok());
      }
    EXPECT_EQ(g.nodes(), 0u);
    EXPECT_EQ(g.memory().used(), 0u);
  }
}

// --- in turns of a shard ---

struct DropInTurns : testing::Test {
  static constexpr uint64_t kSteps = 5'000;  // of one turn, as a shard has them
  static constexpr double kLongest = 0.025;  // seconds of CPU

  DropInTurns() { limits.bytes = 64 << 20; }
  // Turns until all is done; the CPU time of the longest of them.
  double turns() {
    struct Turn final : TurnBudget::Waiter {
      explicit Turn(NodeGraph& graph) : graph(graph) {}
      void on_turn() override {
        ++count;
        longest = std::max(longest, support::cpu_of([&] { EXPECT_TRUE(graph.deliver().ok()); }, 1));
      }
      NodeGraph& graph;
      int count = 0;
      double longest = 0;
    } turn(*g);
    while (g->undelivered() && turn.count < 10'000) {
      turn_budget.wait(turn);
      env.advance(base::Duration(0));
    }
    count = turn.count;
    return turn.longest;
  }
  void make() { g.emplace(limits, nullptr, &turn_budget); }
  double drop(const char* id, NodeGraph::DropScope scope) {
    return support::cpu_of([&] { ASSERT_TRUE(g->drop(*g->find(id), scope).ok()); }, 1);
  }

  base::FakeEnv env;
  TurnBudget turn_budget{env, kSteps};
  GraphLimits limits;
  std::optional<NodeGraph> g;
  int count = 0;
};

TEST_F(DropInTurns, ANodeWithAsManyWaitingFragmentsAsItsSessionMayHoldIsDroppedInSeveral) {
  make();
  const std::string_view child[] = {"c"};
  ASSERT_TRUE(g->add({.node = "a", .seq = 1'000'000, .continued = true, .children = child}));
  int64_t fragments = 0;
  while (g->add({.node = "a", .seq = fragments + 1, .continued = true})) ++fragments;
  ASSERT_GT(fragments, 690'000) << "until the session's bytes are used up";
  EXPECT_LT(drop("a", NodeGraph::DropScope::kWithChildren), kLongest);
  ASSERT_NE(g->find("a"), nullptr) << "its name stays until all that it had has gone";
  EXPECT_FALSE(g->add({.node = "a", .seq = 0})) << "and it stays dropped";
  EXPECT_LT(turns(), kLongest);
  EXPECT_GT(count, 20);
  EXPECT_EQ(g->find("a"), nullptr);
  EXPECT_LT(g->memory().used(), 1024u) << "the name of the child";
}

TEST_F(DropInTurns, ANodeWithAsManyEdgesAsItsSessionMayHoldIsDroppedInSeveral) {
  make();
  const std::vector<std::string_view> children(4000, "c");
  ASSERT_TRUE(g->add({.node = "c", .continued = true}));
  ASSERT_TRUE(g->add({.node = "a", .continued = true, .children = std::span(children).first(1)}));
  int64_t seq = 1;
  while (g->add({.node = "a", .seq = seq, .continued = true, .children = children})) ++seq;
  ASSERT_GT(seq * 4000, 1'300'000);
  EXPECT_LT(drop("a", NodeGraph::DropScope::kWithChildren), kLongest);
  EXPECT_LT(turns(), kLongest);
  EXPECT_GT(count, 5);
  EXPECT_EQ(g->nodes(), 0u) << "the child goes with its last parent, turns later";
  EXPECT_EQ(g->memory().used(), 0u);
}

TEST_F(DropInTurns, WhoReadsAChildIsToldOnceItsLastEdgeHasGone) {
  make();
  const std::vector<std::string_view> children(4000, "c");
  ASSERT_TRUE(g->add({.node = "c", .continued = true}));
  for (int64_t seq = 0; seq < 200; ++seq)
    ASSERT_TRUE(g->add({.node = "a", .seq = seq, .continued = true, .children = children}));
  struct ChildListener final : CursorListener {
    void on_news(Cursor& c) override { step = c.next(), ++news; }
    Cursor::Step step = Cursor::Step::kWait;
    int news = 0;
  } listener;
  Cursor of_child(*g, *g->find("c"), listener);
  EXPECT_EQ(of_child.next(), Cursor::Step::kWait);
  turn_budget.spend(kSteps);
  (void)drop("a", NodeGraph::DropScope::kWithChildren);
  ASSERT_TRUE(g->undelivered());
  ASSERT_TRUE(g->append(*g->claim("other").value(), {.continued = true}).ok());
  EXPECT_EQ(listener.news, 0);
  (void)turns();
  EXPECT_EQ(listener.news, 1);
  EXPECT_EQ(listener.step, Cursor::Step::kFailed) << "what it reads has been dropped";
}

}  // namespace
}  // namespace weir::evergreen
