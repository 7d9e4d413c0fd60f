// Outputs that have ended while their action goes on: DROP and times to live free their nodes.
#include "bench.h"

namespace weir::evergreen {
namespace {

using namespace std::chrono_literals;

// ECHO of na and nb, of which na is there.
const std::string kTwo =
    text_leaf("na", "hello") +
    "actions { name: 'ECHO' inputs { name: 'a' id: 'na' } inputs { name: 'b' id: 'nb' } outputs { name: 'a' id: 'oa' } "
    "outputs { name: 'b' id: 'ob' } }";
constexpr int kOthers = 6;

std::string on_node(const std::string& action, const std::string& input, const std::string& node) {
  return "actions { name: '" + action + "' inputs { name: '" + input + "' id: '" + node + "' } }";
}
std::string other(int i) { return "x" + std::to_string(i); }
// Actions that wait; their outputs take the memory of nodes that were freed.
std::string others() {
  std::string out;
  for (int i = 0; i < kOthers; ++i)
    out += "actions { name: 'ECHO' inputs { name: 'x' id: 'never' } outputs { name: 'x' id: '" + other(i) + "' } }";
  return out;
}
bool said(const support::FakeExchange& x, const std::string& node) {
  auto all = Bench::fragments(x);
  return std::any_of(all.begin(), all.end(), [&](const auto& f) { return f.id() == node; });
}

TEST(EvergreenEndedOutputs, ADroppedOneIsLeftAloneByItsActionsCancellation) {
  Bench t;
  auto x = t.open(), y = t.open();
  t.send(*x, kTwo);
  ASSERT_EQ(t.leaf(*x, "oa"), "hello");
  t.send(*x, on_node("DROP", "node", "oa"));
  t.send(*y, others());
  t.send(*x, on_node("CANCEL", "output", "ob"));
  EXPECT_EQ(t.leaf(*x, "ob"), "");
  for (int i = 0; i < kOthers; ++i) EXPECT_FALSE(said(*x, other(i)) || said(*y, other(i))) << i;
  EXPECT_EQ(t.status(*x), "open");
  t.send(*y, text_leaf("never", "later"));
  for (int i = 0; i < kOthers; ++i) EXPECT_EQ(t.leaf(*y, other(i)), "later") << i;
}

TEST(EvergreenEndedOutputs, ADroppedOneIsLeftAloneByItsActionsFailure) {
  Bench t;
  auto x = t.open();
  std::string two = kTwo;
  two.insert(two.rfind('}'), "outputs { name: 'status' id: 's' } ");
  t.send(*x, two);
  t.send(*x, on_node("DROP", "node", "oa") + others());
  t.send(*x, "node_fragments { id: 'nb' continued: true chunk_fragment { metadata { mimetype: 'a/b' } data: 'x' } }");
  t.send(*x, on_node("DROP", "node", "nb"));
  EXPECT_EQ(t.leaf(*x, "s"), "{\"code\":5,\"message\":\"action ECHO: node 'nb' has been dropped\"}");
  for (int i = 0; i < kOthers; ++i) EXPECT_FALSE(said(*x, other(i))) << i;
  t.send(*x, text_leaf("never", "later"));
  for (int i = 0; i < kOthers; ++i) EXPECT_EQ(t.leaf(*x, other(i)), "later") << i;
}

TEST(EvergreenEndedOutputs, OneWhoseTimeIsOverIsLeftAloneByItsActionsCancellation) {
  Bench t;
  auto x = t.open();
  auto ttl = t.parse(on_node("SET_TTL", "node", "oa"));
  v1::TtlConfig config;
  config.set_milliseconds(100);
  add_config(ttl, config);
  t.send(*x, kTwo);
  t.send(*x, ttl);
  t.rpc.advance(*x, 1s);
  t.send(*x, others());
  t.send(*x, on_node("CANCEL", "output", "ob"));
  EXPECT_EQ(t.leaf(*x, "ob"), "");
  for (int i = 0; i < kOthers; ++i) EXPECT_FALSE(said(*x, other(i))) << i;
}

TEST(EvergreenEndedOutputs, ACancellationIsOfTheActionThatMakesTheNodeNow) {
  Bench t;
  auto x = t.open();
  t.send(*x, kTwo);
  t.send(*x, on_node("DROP", "node", "oa") + others());
  for (int i = 0; i < kOthers; ++i) t.send(*x, on_node("CANCEL", "output", other(i)));
  EXPECT_EQ(t.leaf(*x, "ob"), "…") << "nobody has cancelled that one";
  for (int i = 0; i < kOthers; ++i) EXPECT_EQ(t.leaf(*x, other(i)), "");
}

TEST(EvergreenEndedOutputs, ByOneThatIsThereTheActionCanStillBeCancelled) {
  Bench t;
  auto x = t.open();
  t.send(*x, kTwo);
  t.send(*x, on_node("CANCEL", "output", "oa"));
  EXPECT_EQ(t.leaf(*x, "ob"), "");
  EXPECT_EQ(t.leaf(*x, "oa"), "hello");
}

}  // namespace
}  // namespace weir::evergreen
