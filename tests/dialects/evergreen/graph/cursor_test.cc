// Cursors that read along, outputs, references, and what dropping gives back.
#include "fixture.h"

namespace weir::evergreen {
namespace {

using base::Code;

TEST(NodeGraph, ACursorGoesOnWhereItWaited) {
  Graph g{{}};
  Listener l;
  Cursor c(g, **g.node("p"), l);
  Step end;
  EXPECT_EQ(drain(c, end), "");
  EXPECT_EQ(end, Step::kWait);
  EXPECT_EQ(c.missing(), "node 'p', fragment 0");
  g.refused(branch("p", {"x"}, 0, true));
  EXPECT_TRUE(g.deliver().ok());
  EXPECT_EQ(l.news, 1);
  EXPECT_EQ(drain(c, end), "");
  EXPECT_EQ(c.missing(), "node 'x', fragment 0");
  g.refused(leaf("x", "1", 1));
  EXPECT_TRUE(g.deliver().ok());
  EXPECT_EQ(l.news, 1) << "a gap is no news";
  g.refused(leaf("x", "0", 0, true));
  EXPECT_TRUE(g.deliver().ok());
  EXPECT_EQ(drain(c, end), "01");
  g.refused(branch("p", {"x"}, 1));
  EXPECT_TRUE(g.deliver().ok());
  EXPECT_EQ(drain(c, end), "01");
  EXPECT_EQ(end, Step::kEnd);
  EXPECT_EQ(l.news, 3);
}

TEST(NodeGraph, AnOutputIsNewAndTheActionsAlone) {
  Graph g{{}};
  g.refused(branch("p", {"out"}));  // a name is no content yet
  auto out = g.claim("out");
  ASSERT_TRUE(out.has_value());
  EXPECT_EQ(g.claim("out").error().code, Code::kAlreadyExists);
  EXPECT_EQ(g.claim("p").error().code, Code::kAlreadyExists);
  EXPECT_NE(g.refused(leaf("out", "x")).find("is the output of an action"), std::string::npos);
  Fragment f;
  f.continued = true, f.has_chunk = true, f.metadata = &kText, f.data = base::Bytes::copy_of("hi");
  EXPECT_TRUE(g.append(**out, f).ok());
  EXPECT_EQ(flat(g, "p"), "hi…");
  Fragment last;
  EXPECT_TRUE(g.append(**out, last).ok());
  EXPECT_EQ(flat(g, "p"), "hi");
}

TEST(NodeGraph, AWriterDoesNotReadWhatItWrites) {
  Graph g{{}};
  Listener writer, other;
  g.refused(branch("p", {"x", "out"}));
  g.refused(leaf("x", "1"));
  Node& out = **g.claim("out", &writer);
  Step end;
  Cursor at_once(g, out, writer), later(g, **g.node("p"), writer), others(g, **g.node("p"), other);
  EXPECT_EQ(drain(at_once, end), "");
  EXPECT_EQ(end, Step::kFailed);
  EXPECT_EQ(drain(later, end), "1");
  EXPECT_EQ(end, Step::kFailed);
  EXPECT_EQ(later.status().code, Code::kInvalidArgument);
  EXPECT_EQ(later.status().text, "node 'out': an action's output must not be part of its own input");
  EXPECT_EQ(drain(others, end), "1");
  EXPECT_EQ(end, Step::kWait);
  EXPECT_TRUE(g.append(out, Fragment{}).ok());
  Cursor after(g, **g.node("p"), writer);
  EXPECT_EQ(drain(after, end), "1") << "it is complete";
  EXPECT_EQ(end, Step::kEnd);
}

TEST(NodeGraph, ReadersOfAFailedOutputHearWhy) {
  Graph g{{}};
  Node& out = **g.claim("out");
  Listener l;
  Cursor c(g, **g.node("out"), l);
  EXPECT_EQ(c.next(), Step::kWait);
  g.fail(out, base::invalid("no"));
  EXPECT_TRUE(g.deliver().ok());
  EXPECT_EQ(l.news, 1);
  EXPECT_EQ(c.next(), Step::kFailed);
  EXPECT_EQ(c.status().text, "no");
}

TEST(NodeGraph, AReferenceIsABarrierUntilItIsLoaded) {
  Graph g{{}};
  std::string_view id = "v";
  Fragment f{id, 0, true, {}, true, &kText, {}, true};
  EXPECT_TRUE(g.add(f).has_value());
  g.refused(leaf("v", "-tail", 1));
  EXPECT_EQ(flat(g, "v"), "…");
  EXPECT_FALSE(g.find("v")->complete());
  EXPECT_TRUE(g.loaded(*g.find("v"), 0, base::Bytes::copy_of("head")).ok());
  EXPECT_EQ(flat(g, "v"), "head-tail");
  EXPECT_TRUE(g.find("v")->complete());
}

TEST(NodeGraph, DroppingGivesBackWhatWasCharged) {
  Graph g{{}};
  g.refused(branch("p", {"a", "b"}));
  g.refused(branch("q", {"b"}));
  g.refused(leaf("a", std::string(1000, 'x')));
  g.refused(leaf("b", "y"));
  EXPECT_TRUE(g.drop(*g.find("p"), NodeGraph::DropScope::kWithChildren).ok());
  EXPECT_EQ(g.find("p"), nullptr);
  EXPECT_EQ(g.find("a"), nullptr);
  EXPECT_EQ(flat(g, "q"), "y");
  EXPECT_TRUE(g.drop(*g.find("b"), NodeGraph::DropScope::kNode).ok());
  EXPECT_EQ(flat(g, "q"), "failed: node 'b' has been dropped");
  EXPECT_NE(g.refused(leaf("b", "again")).find("has been dropped"), std::string::npos);
  EXPECT_TRUE(g.drop(*g.find("q"), NodeGraph::DropScope::kNode).ok());
  EXPECT_EQ(g.nodes(), 0u);
  EXPECT_EQ(g.memory().used(), 0u);
}

TEST(NodeGraph, DroppingWhatIsBeingReadFailsTheReader) {
  Graph g{{}};
  g.refused(branch("p", {"a"}, 0, true));
  g.refused(leaf("a", "x", 0, true));
  Listener l;
  {
    Cursor c(g, *g.find("p"), l);
    Step end;
    drain(c, end);
    EXPECT_TRUE(g.drop(*g.find("p"), NodeGraph::DropScope::kWithChildren).ok());
    EXPECT_TRUE(g.deliver().ok());
    EXPECT_EQ(l.news, 1);
    EXPECT_EQ(c.next(), Step::kFailed);
  }
  EXPECT_EQ(g.nodes(), 0u);
  EXPECT_EQ(g.memory().used(), 0u);
  Node& out = **g.claim("out");
  EXPECT_EQ(g.drop(out, NodeGraph::DropScope::kNode).code, Code::kFailedPrecondition);
  g.fail(out, base::invalid("over"));
}

// --- visits of all Cursors together ----------------------------------------------------------------------------------

// A leaf of 10 chunks: 1 visit to begin, 11 to measure it, 10 to read it.
constexpr uint64_t kFlattening = 22;

void send_ten(Graph& g) {
  for (int64_t seq = 0; seq < 10; ++seq) EXPECT_EQ(g.refused(leaf("a", "x", seq, seq < 9)), "");
}
GraphLimits visiting(uint64_t visits, uint64_t per_message) {
  GraphLimits limits;
  limits.visits = visits;
  limits.visits_per_message = per_message;
  return limits;
}
const char* const kTooMany =
    "failed: node 'a': the session's actions visit too many fragments (each message allows for 30); send fewer actions "
    "at once, or fewer and larger fragments";

TEST(NodeGraph, CursorsVisitSoManyFragmentsTogetherAndNoMore) {
  Graph g{visiting(2 * kFlattening, 30)};
  send_ten(g);
  EXPECT_EQ(flat(g, "a"), "xxxxxxxxxx");
  EXPECT_EQ(flat(g, "a"), "xxxxxxxxxx");
  EXPECT_EQ(flat(g, "a"), kTooMany);
  Graph h{visiting(2 * kFlattening - 1, 30)};
  send_ten(h);
  EXPECT_EQ(flat(h, "a"), "xxxxxxxxxx");
  EXPECT_EQ(flat(h, "a"), kTooMany) << "one is missing";
}

TEST(NodeGraph, AMessageBringsVisitsUpToTheLimit) {
  Graph g{visiting(2 * kFlattening, 30)};
  send_ten(g);
  for (int i = 0; i < 1000; ++i) {
    g.flatten_budget().refill();
    ASSERT_EQ(flat(g, "a"), "xxxxxxxxxx") << "one in each message, for as long as the session lives";
  }
  for (int i = 0; i < 1000; ++i) g.flatten_budget().refill();
  EXPECT_EQ(flat(g, "a"), "xxxxxxxxxx");
  EXPECT_EQ(flat(g, "a"), "xxxxxxxxxx");
  EXPECT_EQ(flat(g, "a"), kTooMany);
}

// A small node can refer to a leaf thousands of times, and its readers look through the type each time.
TEST(NodeGraph, ALongTypeIsManyVisits) {
  const Metadata kLong{"text/plain" + std::string(64'000, ';'), "", "", ""};
  Graph g{visiting(5'000, 30)};
  Sent long_leaf = leaf("long", "x");
  long_leaf.metadata = &kLong;
  EXPECT_EQ(g.refused(long_leaf), "");
  EXPECT_EQ(g.refused(leaf("short", "x")), "");
  EXPECT_EQ(g.refused(branch("a", {"long", "long", "long", "long", "long"})), "");
  EXPECT_EQ(g.refused(branch("b", std::vector<std::string>(500, "short"))), "");
  EXPECT_EQ(flat(g, "b").size(), 500u);
  EXPECT_EQ(flat(g, "a"), kTooMany);
}

TEST(NodeGraph, FragmentsWithNothingInThemAreVisitedToo) {
  Graph g{visiting(100, 30)};
  Listener l;
  Cursor c(g, **g.node("a"), l);
  for (int64_t seq = 0; seq < 100; ++seq) {
    Sent s = empty("a", seq);
    s.continued = true;
    EXPECT_EQ(g.refused(s), "");
  }
  EXPECT_EQ(c.next(), Step::kFailed);
  EXPECT_EQ(c.status().code, Code::kResourceExhausted);
}

}  // namespace
}  // namespace weir::evergreen
