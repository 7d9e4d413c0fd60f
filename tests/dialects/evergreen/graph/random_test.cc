// Graphs at random, against plain recursion and plain search.
#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "fixture.h"

namespace weir::evergreen {
namespace {

// A random acyclic graph, cut into fragments, sent shuffled and partly twice: flattened, it is what a plain recursion
// over the whole gives, and a cursor that reads along sees the same bytes.
class Shuffled : public testing::TestWithParam<int> {};
TEST_P(Shuffled, DeliveryOrderDoesNotMatter) {
  std::mt19937 random{unsigned(GetParam())};
  auto below = [&](size_t n) { return size_t(random() % n); };
  size_t nodes = 1 + below(12);
  std::map<std::string, std::string> text;
  std::vector<Sent> all;
  for (size_t i = nodes; i-- > 0;) {  // node i has children of higher numbers only
    std::string id = "n" + std::to_string(i);
    size_t pieces = 1 + below(4);
    bool is_leaf = i + 1 == nodes || below(3) == 0;
    for (size_t seq = 0; seq < pieces; ++seq) {
      bool last = seq + 1 == pieces;
      Sent s = is_leaf ? leaf(id, std::string(below(4), char('a' + i)), int64_t(seq), !last)
                       : branch(id, {}, int64_t(seq), !last);
      if (is_leaf && below(2)) s.metadata = &kText;
      if (is_leaf && last && seq > 0 && below(3) == 0) s = empty(id, int64_t(seq));
      if (is_leaf && !last && seq > 0 && below(4) == 0) (s = empty(id, int64_t(seq))).continued = true;
      if (!is_leaf)
        for (size_t n = below(3); n-- > 0;) s.children.push_back("n" + std::to_string(i + 1 + below(nodes - i - 1)));
      text[id] += s.data;
      for (const auto& c : s.children) text[id] += text[c];
      all.push_back(s);
    }
  }
  for (size_t n = below(5); n-- > 0;) all.push_back(all[below(all.size())]);
  std::shuffle(all.begin(), all.end(), random);
  Graph g{{}};
  Listener l;
  Cursor c(g, **g.node("n0"), l);
  std::string seen;
  Step end = Step::kWait;
  l.then = [&] { seen += drain(c, end); };
  l.then();
  for (const auto& s : all) {
    ASSERT_EQ(g.refused(s), "");
    EXPECT_TRUE(g.deliver().ok());
  }
  EXPECT_EQ(end, Step::kEnd);
  EXPECT_EQ(seen, text["n0"]);
  EXPECT_EQ(flat(g, "n0"), text["n0"]);
  EXPECT_EQ(g.flatten_budget().measure(*g.find("n0"))->bytes, text["n0"].size());
}
INSTANTIATE_TEST_SUITE_P(Seeds, Shuffled, testing::Range(0, 500));

// Edges at random: accepted exactly as long as a plain search finds no way back.
TEST(NodeGraph, RandomEdgesAreRefusedExactlyWhenTheyCloseACycle) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random{seed};
    Graph g{{}};
    std::map<int, std::set<int>> edges;
    std::function<bool(int, int)> way = [&](int from, int to) {
      if (from == to) return true;
      for (int next : edges[from])
        if (way(next, to)) return true;
      return false;
    };
    std::map<int, int> seq;
    for (int i = 0; i < 40; ++i) {
      int from = int(random() % 9), to = int(random() % 9);
      bool cycle = way(to, from);
      std::string said = g.refused(branch(std::to_string(from), {std::to_string(to)}, seq[from]++, true));
      ASSERT_EQ(said.empty(), !cycle) << said;
      if (cycle) break;  // an error is the end of the session
      edges[from].insert(to);
    }
  }
}

}  // namespace
}  // namespace weir::evergreen
