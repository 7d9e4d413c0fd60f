// KEEP and RESUME: tries that come again, much that is kept, and what is not written.
#include "dialects/evergreen/graph_state.h"
#include "keep_fixture.h"
#include "wire/service_guard.h"

namespace weir::evergreen {
namespace {

using namespace std::chrono_literals;

TEST_F(EvergreenKeep, RefusedResumesCanBeTriedAgainOnTheSameConnection) {
  auto x = t.open();
  const std::string id = keep(*x);
  t.send(*x, text_leaf("a", "abc"));
  x.reset();
  answer();
  auto y = t.open();
  auto again = [&](const std::string& n) {
    auto m = Bench::parse("actions { name: 'RESUME' outputs { name: 'nodes' id: 'there" + n +
                          "' } outputs { name: 'session' id: 'sid" + n + "' } outputs { name: 'status' id: 's" + n +
                          "' } }");
    v1::ResumeConfig config;
    config.set_session(id);
    add_config(m, config);
    t.send(*y, m);
    answer();
  };
  nodes.take_status = base::try_again(base::Code::kUnavailable, "other connections ask for the session");
  for (int i = 0; i < 15; ++i) {
    again(std::to_string(i));
    const std::string why = t.leaf(*y, "s" + std::to_string(i));
    EXPECT_NE(why.find("other connections ask"), std::string::npos) << why;
  }
  nodes.take_status = {};
  again("");
  EXPECT_EQ(t.leaf(*y, "there"), R"(["a"])") << t.leaf(*y, "s");
  EXPECT_EQ(t.leaf(*y, "sid"), id);
}

TEST_F(EvergreenKeep, WhoOnlyLooksWritesNothing) {
  auto x = t.open();
  const std::string id = keep(*x);
  t.send(*x, text_leaf("a", std::string(1 << 20, 'x')));
  x.reset();
  answer();
  const int before = nodes.saves;
  for (int i = 0; i < 5; ++i) {
    auto y = t.open();
    t.send(*y, resume(id));
    answer();
    EXPECT_EQ(t.leaf(*y, "there"), R"(["a"])");
    y.reset();
    answer();
  }
  EXPECT_EQ(nodes.saves, before);
  // News are written: something that has come, or that it has become older.
  auto y = t.open();
  t.send(*y, resume(id));
  answer();
  t.send(*y, text_leaf("b", "new"));
  y.reset();
  EXPECT_EQ(nodes.saves, before + 1);
  answer();
  auto z = t.open();
  t.send(*z, resume(id));
  answer();
  t.rpc.advance(*z, 2min);
  z.reset();
  EXPECT_EQ(nodes.saves, before + 2);
  answer();
}

TEST_F(EvergreenKeep, AListOfNodesThatIsTooLongIsRefused) {
  auto x = t.open();
  const std::string id = keep(*x);
  for (int i = 0; i < 400; ++i)  // six letters for each in JSON
    t.send(*x, text_leaf(std::to_string(i) + std::string(1000, '\x01'), "a"));
  for (int i = 0; i < 10; ++i) t.later_turn(), answer();
  x.reset();
  answer();
  auto y = t.open();
  t.send(*y, resume(id, "outputs { name: 'status' id: 's' }"));
  for (int i = 0; i < 10; ++i) t.later_turn(), answer();
  EXPECT_NE(t.leaf(*y, "s").find("there is no room for the list of nodes"), std::string::npos) << t.leaf(*y, "s");
  EXPECT_EQ(status(*y), "open");
  auto z = t.open();  // who does not ask for it has its nodes
  auto m = Bench::parse("actions { name: 'RESUME' outputs { name: 'session' id: 'again' } }");
  v1::ResumeConfig config;
  config.set_session(id);
  add_config(m, config);
  t.send(*z, m);
  for (int i = 0; i < 10; ++i) t.later_turn(), answer();
  EXPECT_EQ(t.leaf(*z, "again"), id);
}

TEST_F(EvergreenKeep, ManyTimesToLiveAreSetInSlices) {
  auto x = t.open();
  const std::string id = keep(*x);
  x.reset();
  answer();
  constexpr int kNodes = 1900;
  NodeGraph graph{{}};
  std::vector<NodeTime> times;
  for (int i = 0; i < kNodes; ++i) {
    Fragment f;
    const std::string id_of = "n" + std::to_string(i);
    f.node = id_of, f.seq = 0, f.has_chunk = true, f.data = base::Bytes::copy_of("x");
    const Metadata text{"text/plain", "", "", {}};
    f.metadata = &text;
    ASSERT_TRUE(graph.add(f));
    times.push_back({id_of, 5s});
  }
  nodes.kept.begin()->second = write_graph_state(graph, 0s, times, [](const Node&) { return false; }).text;
  auto y = t.open();
  t.send(*y, resume(id, "outputs { name: 'session' id: 'again' }"));
  nodes.answer();
  EXPECT_EQ(t.leaf(*y, "again"), "…") << "the first turn has steps for the nodes, not for all times";
  for (int i = 0; i < 3; ++i) t.later_turn();
  EXPECT_EQ(t.leaf(*y, "again"), id) << status(*y);
  t.rpc.advance(*y, 6s);
  t.send(*y, "actions { name: 'DROP' inputs { name: 'node' id: 'n7' } outputs { name: 'status' id: 's' } }");
  EXPECT_NE(t.leaf(*y, "s").find("there is no node 'n7'"), std::string::npos) << t.leaf(*y, "s");
}

TEST_F(EvergreenKeep, OneThatThrowsInATimerStaysAsItWasKept) {
  auto x = t.open();
  const std::string id = keep(*x), before = kept_of(id);
  pause(*x);
  t.send(*x, text_leaf("a", "abc"));
  wire::end_thrown(*x, base::failure(base::Code::kInternal, "as wire::guarded() says it"));
  t.turn();
  x.reset();
  answer();
  EXPECT_EQ(kept_of(id), before);
  EXPECT_TRUE(nodes.held.empty());
}

}  // namespace
}  // namespace weir::evergreen
