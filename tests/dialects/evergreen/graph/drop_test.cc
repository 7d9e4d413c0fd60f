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
      cpu = support::cpu_of([&] { ASSERT_TRUE(g->drop(*g->find("root"), NodeGraph::Reach::kWithChildren).ok()); }, 1);
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
  for (size_t i = 0; i < 2000; ++i) ASSERT_TRUE(g.drop(*g.find("p" + std::to_string(i)), NodeGraph::Reach::kNode).ok());
  EXPECT_EQ(turn_budget.total() - before, 2000u * 4)
      << "64 edges are two steps, and one each for the fragment and its end";
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
        ASSERT_TRUE(g.drop(*node, NodeGraph::Reach::kWithChildren).ok());
      }
    for (int i = 0; i < 10; ++i)
      if (Node* node = g.find("c" + std::to_string(i))) {
        ASSERT_TRUE(g.drop(*node, NodeGraph::Reach::kNode).ok());
      }
    EXPECT_EQ(g.nodes(), 0u);
    EXPECT_EQ(g.memory().used(), 0u);
  }
}

}  // namespace
}  // namespace weir::evergreen
