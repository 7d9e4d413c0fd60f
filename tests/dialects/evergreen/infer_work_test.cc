// INFER with long strings: the bus's workers join and check them.
#include "bench.h"
#include "support/held_workers.h"

namespace weir::evergreen {
namespace {

constexpr size_t kCount = 100'000;

// Lengths that alternate take the longest to count.
std::string short_strings() {
  std::string out;
  for (size_t i = 0; i < kCount; ++i) msg::append_string(out, i % 2 ? "a" : "");
  return out;
}

struct EvergreenInferWork : testing::Test {
  EvergreenInferWork() {
    t.bus.set_worker_pool(workers);
    msg::ModelSpec any;
    any.name = "any", any.version = "1", any.any_tensors = true;
    t.tensors.add(any);
    t.bus.publish(t.catalog);
  }
  // Two fragments of a leaf with so many elements by its type.
  void ask(support::FakeExchange& x, size_t count) {
    const std::string data = short_strings();
    auto m = Bench::parse(
        "actions { name: 'INFER' inputs { name: 's' id: 's' } outputs { name: 's' id: 'o' } target_spec { id: 'any' } "
        "} node_fragments { id: 's' continued: true chunk_fragment { metadata { mimetype: "
        "'application/x-weir-tensor; dtype=BYTES; shape=" +
        std::to_string(count) + "' } } } node_fragments { id: 's' seq: 1 chunk_fragment { } }");
    m.mutable_node_fragments(0)->mutable_chunk_fragment()->set_data(data.substr(0, 1000));
    m.mutable_node_fragments(1)->mutable_chunk_fragment()->set_data(data.substr(1000));
    t.send(x, m);
  }
  void work() {
    ASSERT_EQ(workers.held.size(), 1u);
    workers.work();
    t.turn();
  }

  support::HeldWorkers workers;
  Bench t;
};

TEST_F(EvergreenInferWork, LongStringsAreJoinedAndCheckedByWorkers) {
  auto x = t.open();
  ask(*x, kCount);
  auto& inbox = t.tensors["any"];
  EXPECT_TRUE(inbox.held.empty());
  work();
  ASSERT_EQ(inbox.held.size(), 1u);
  msg::Tensor echo = inbox.held[0]->inputs.at(0);
  EXPECT_TRUE(echo.data.view() == short_strings());
  inbox.finish(inbox.held[0], {msg::Outputs{{echo}, {}, true}});
  t.turn();
  EXPECT_EQ(t.leaf(*x, "o"), "…");
  work();
  EXPECT_TRUE(t.leaf(*x, "o") == short_strings());
}

TEST_F(EvergreenInferWork, WrongOnesAreRefused) {
  auto x = t.open();
  ask(*x, kCount - 1);
  work();
  EXPECT_NE(t.status(*x).find("more than 99999 BYTES elements, but 99999"), std::string::npos) << t.status(*x);
}

TEST_F(EvergreenInferWork, AClientThatLeavesTakesThemBack) {
  auto x = t.open();
  ask(*x, kCount);
  ASSERT_EQ(workers.held.size(), 1u);
  x.reset();
  EXPECT_TRUE(workers.held[0]->cancelled.load());
  work();
  EXPECT_TRUE(t.tensors["any"].held.empty());
}

}  // namespace
}  // namespace weir::evergreen
