#include "session/slices.h"

#include "base/fake_env.h"
#include "node_graph_fixture.h"

namespace weir::session {
namespace {

struct Waiter final : Slices::Waiter {
  Waiter(Slices& slices, std::string& log, char name, uint64_t work)
      : slices_(slices), log_(log), name_(name), left_(work) {}
  // One step at a time, as long as the turn's steps last.
  void on_slice() override {
    log_ += name_;
    while (left_ > 0 && !slices_.spent()) --left_, slices_.spend(1);
    if (left_ > 0) slices_.wait(*this);
  }

 private:
  Slices& slices_;
  std::string& log_;
  char name_;
  uint64_t left_;
};

TEST(Slices, WhoWaitsGoesOnInALaterTurnAndEachInItsOrder) {
  base::FakeEnv env;
  Slices slices(env, 10);
  std::string log;
  Waiter a(slices, log, 'a', 25), b(slices, log, 'b', 5), c(slices, log, 'c', 5);
  slices.spend(100);
  EXPECT_TRUE(slices.spent());
  slices.wait(a), slices.wait(b), slices.wait(c), slices.wait(b);
  EXPECT_EQ(log, "") << "never from inside";
  env.advance(base::Duration(0));
  EXPECT_EQ(log, "abcaa");
  EXPECT_EQ(env.armed(), 0u);
}

TEST(Slices, WhoIsForgottenIsNotCalled) {
  base::FakeEnv env;
  Slices slices(env, 10);
  std::string log;
  Waiter a(slices, log, 'a', 1), b(slices, log, 'b', 1);
  slices.spend(10);
  slices.wait(a), slices.wait(b);
  slices.forget(a);
  env.advance(base::Duration(0));
  EXPECT_EQ(log, "b");
  slices.spend(10);
  slices.wait(a);
  slices.forget(a);
  EXPECT_EQ(env.armed(), 0u);
}

// --- in a NodeGraph --------------------------------------------------------------------------------------------------

// A diamond that is a leaf of one byte 2^levels times.
void diamond(Graph& g, int levels) {
  for (int i = 0; i < levels; ++i) {
    std::string below = std::to_string(i + 1);
    ASSERT_EQ(g.refused(branch(std::to_string(i), {below, below})), "");
  }
  ASSERT_EQ(g.refused(leaf(std::to_string(levels), "x")), "");
}

TEST(NodeGraphSlices, ACursorGoesOnWhereTheTurnEnded) {
  base::FakeEnv env;
  Slices slices(env, 100);
  Graph g({}, nullptr, &slices);
  diamond(g, 8);
  Listener l;
  std::string out;
  Step end = Step::kWait;
  Cursor c(g, *g.find("0"), l);
  l.then = [&] { out += drain(c, end); };
  out += drain(c, end);
  struct Turn final : Slices::Waiter {
    explicit Turn(Graph& graph) : graph(graph) {}
    void on_slice() override { graph.deliver(); }
    Graph& graph;
  } turn(g);
  int turns = 1;
  for (; end == Step::kWait; ++turns) {
    ASSERT_TRUE(g.undelivered());
    EXPECT_TRUE(g.paused());
    EXPECT_EQ(c.missing(), "");
    uint64_t before = slices.total();
    slices.wait(turn);
    env.advance(base::Duration(0));
    EXPECT_LE(slices.total() - before, 100u);
  }
  EXPECT_EQ(end, Step::kEnd);
  EXPECT_EQ(out, std::string(256, 'x'));
  EXPECT_GE(turns, 7);
  EXPECT_FALSE(g.undelivered());
}

TEST(NodeGraphSlices, LargeChunksAreMoreStepsThanSmallOnes) {
  base::FakeEnv env;
  Slices slices(env, UINT64_MAX);
  Graph g({}, nullptr, &slices);
  ASSERT_EQ(g.refused(leaf("small", "x")), "");
  ASSERT_EQ(g.refused(leaf("large", std::string(64 << 10, 'x'))), "");
  auto steps = [&](const char* id) {
    uint64_t before = slices.total();
    (void)flat(g, id);
    return slices.total() - before;
  };
  EXPECT_EQ(steps("large"), steps("small") + 64);
}

TEST(NodeGraphSlices, ACursorThatGoesWhileItWaitsIsNotCalled) {
  base::FakeEnv env;
  Slices slices(env, 10);
  Graph g({}, nullptr, &slices);
  diamond(g, 8);
  Listener l;
  {
    Cursor c(g, *g.find("0"), l);
    Step end;
    drain(c, end);
    EXPECT_EQ(end, Step::kWait);
  }
  EXPECT_FALSE(g.undelivered());
  EXPECT_EQ(l.news, 0);
}

}  // namespace
}  // namespace weir::session
