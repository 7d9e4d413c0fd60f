// A NodeGraph keeps no more memory alive than it has charged for.
#include <string>

#include <gtest/gtest.h>

#include "base/memory_ledger.h"
#include "dialects/evergreen/graph/cursor.h"

namespace weir::evergreen {
namespace {

const Metadata kText{"text/plain", "", "", ""};

// A slab that says when it goes.
struct Watched {
  bool gone = false;
  base::Bytes whole;

  explicit Watched(size_t bytes) {
    struct Slab final : base::Slab {
      std::string memory;
      bool* gone;
      Slab(size_t n, bool* g)
          : base::Slab(nullptr, n, [](base::Slab* s) { delete static_cast<Slab*>(s); }), memory(n, 'x'), gone(g) {
        data = reinterpret_cast<std::byte*>(memory.data());
      }
      ~Slab() { *gone = true; }
    };
    auto* slab = new Slab(bytes, &gone);
    whole = base::Bytes(slab, slab->data, bytes);
  }
};

Fragment leaf_of(std::string_view node, base::Bytes data) {
  Fragment f;
  f.node = node;
  f.has_chunk = true;
  f.metadata = &kText;
  f.data = std::move(data);
  return f;
}

TEST(NodeGraphMemory, ASmallPartOfALargeMessageKeepsNothingElseAlive) {
  NodeGraph g{{}};
  Watched message(1 << 20);
  ASSERT_TRUE(g.add(leaf_of("a", message.whole.slice(100, 1))).has_value());
  message.whole = {};
  EXPECT_TRUE(message.gone);
  EXPECT_LT(g.memory().used(), 4096u);
  EXPECT_EQ(g.flatten_budget().measure(*g.find("a"))->bytes, 1u);
}

TEST(NodeGraphMemory, WhatIsMostOfItsMessageStaysWhereItIs) {
  NodeGraph g{{}};
  Watched message(1 << 20);
  ASSERT_TRUE(g.add(leaf_of("a", message.whole.slice(100, 600'000))).has_value());
  message.whole = {};
  EXPECT_FALSE(message.gone);
  ASSERT_TRUE(g.drop(*g.find("a"), NodeGraph::DropScope::kNode).ok());
  EXPECT_TRUE(message.gone);
}

TEST(NodeGraphMemory, AnOutputThatIsARowOfABatchLetsTheBatchGo) {
  NodeGraph g{{}};
  Watched batch(1 << 20);
  auto node = g.claim("out");
  ASSERT_TRUE(node.has_value());
  ASSERT_TRUE(g.append(**node, leaf_of("", batch.whole.slice(4096, 4096))).ok());
  batch.whole = {};
  EXPECT_TRUE(batch.gone);
}

TEST(NodeGraphMemory, AReferenceThatWasReadIntoALargeBufferIsCutToSize) {
  NodeGraph g{{}};
  Fragment f = leaf_of("a", {});
  f.by_reference = true;
  ASSERT_TRUE(g.add(f).has_value());
  Watched buffer(1 << 20);
  ASSERT_TRUE(g.loaded(*g.find("a"), 0, buffer.whole.slice(0, 10)).ok());
  buffer.whole = {};
  EXPECT_TRUE(buffer.gone);
}

struct Deaf final : CursorListener {
  void on_news(Cursor&) override {}
};

TEST(NodeGraphMemory, BytesThatAReaderHoldsStayChargedWhenTheirNodeIsDropped) {
  NodeGraph g{{}};
  ASSERT_TRUE(g.add(leaf_of("a", base::Bytes::copy_of(std::string(50'000, 'x')))).has_value());
  const uint64_t before = g.memory().used();
  Deaf deaf;
  Cursor c(g, *g.find("a"), deaf);
  ASSERT_EQ(c.next(), Cursor::Step::kChunk);
  Hold first = c.hold(), second = c.hold();
  EXPECT_EQ(g.memory().used(), before) << "held once and for all";
  EXPECT_EQ(c.next(), Cursor::Step::kLeafEnd);
  EXPECT_EQ(c.next(), Cursor::Step::kEnd);
  ASSERT_TRUE(g.drop(*g.find("a"), NodeGraph::DropScope::kNode).ok());
  EXPECT_EQ(g.nodes(), 0u);
  EXPECT_EQ(g.memory().used(), 50'000u);
  first.reset();
  EXPECT_EQ(g.memory().used(), 50'000u);
  second.reset();
  EXPECT_EQ(g.memory().used(), 0u);
}

TEST(NodeGraphMemory, AReaderThatLetsGoFirstChangesNothing) {
  NodeGraph g{{}};
  ASSERT_TRUE(g.add(leaf_of("a", base::Bytes::copy_of("text"))).has_value());
  const uint64_t before = g.memory().used();
  Deaf deaf;
  {
    Cursor c(g, *g.find("a"), deaf);
    ASSERT_EQ(c.next(), Cursor::Step::kChunk);
    EXPECT_NE(c.hold(), nullptr);
  }
  EXPECT_EQ(g.memory().used(), before);
  ASSERT_TRUE(g.drop(*g.find("a"), NodeGraph::DropScope::kNode).ok());
  EXPECT_EQ(g.memory().used(), 0u);
}

TEST(NodeGraphMemory, AGraphHoldsWhatItIsChargedAndGivesItBack) {
  session::ByteQuota byte_quota(64 << 10, 1 << 20);
  const Metadata text{"text/plain", "", "", ""};
  auto add = [&](NodeGraph& graph, std::string_view node, size_t bytes) {
    Fragment f;
    f.node = node, f.has_chunk = true, f.metadata = &text;
    f.data = base::Bytes::copy_of(std::string(bytes, 'x'));
    auto fate = graph.add(f);
    return fate ? base::Status() : fate.error();
  };
  {
    session::Reservation mine(&byte_quota, 1), other(&byte_quota, 1), stranger(&byte_quota, 2);
    NodeGraph a({}, &mine), b({}, &other), c({}, &stranger);
    EXPECT_TRUE(add(a, "x", 40'000).ok());
    EXPECT_GE(byte_quota.held(1), a.memory().used());
    EXPECT_LT(byte_quota.held(1), a.memory().used() + 4096);
    auto refused = add(b, "y", 40'000);
    EXPECT_EQ(refused.code, base::Code::kResourceExhausted);
    EXPECT_EQ(refused.text.substr(0, 46), "node 'y', fragment 0: all your sessions would ");
    EXPECT_TRUE(add(c, "z", 40'000).ok()) << "another tenant";
    ASSERT_TRUE(a.drop(*a.find("x"), NodeGraph::DropScope::kNode).ok());
    EXPECT_EQ(byte_quota.held(1), 4096u) << "the names that are left";
    EXPECT_TRUE(add(b, "again", 40'000).ok());
  }
  EXPECT_EQ(byte_quota.held(), 0u);
}

TEST(NodeGraphMemory, DataThatIsChargedAlreadyIsNotChargedToTheLedgerAgain) {
  using base::MemoryKind;
  base::MemoryLedger ledger(2 << 20);
  session::ByteQuota byte_quota(1 << 20, 1 << 20, &ledger);
  const auto all = [&] { return ledger.held(MemoryKind::kSlabs) + ledger.held(MemoryKind::kSessions); };
  constexpr size_t kSize = 500'000, kBeside = 8192;
  {
    session::Reservation reservation(&byte_quota, 1);
    NodeGraph g({}, &reservation);
    for (const char* node : {"a", "b"}) {
      auto data = base::adopt(&ledger, MemoryKind::kSlabs, std::string(kSize, 'x'));
      ASSERT_TRUE(g.add(leaf_of(node, *std::move(data))).has_value()) << node;
    }
    EXPECT_GE(byte_quota.held(1), 2 * kSize) << "it counts as the session's all the same";
    EXPECT_GE(all(), 2 * kSize);
    EXPECT_LE(all(), 2 * kSize + kBeside);
    EXPECT_FALSE(g.add(leaf_of("c", base::Bytes::copy_of(std::string(100'000, 'x')))).has_value()) << "over the quota";
    Deaf deaf;
    Cursor c(g, *g.find("a"), deaf);
    ASSERT_EQ(c.next(), Cursor::Step::kChunk);
    Hold hold = c.hold();
    while (c.next() != Cursor::Step::kEnd) {
    }
    for (const char* node : {"a", "b"}) ASSERT_TRUE(g.drop(*g.find(node), NodeGraph::DropScope::kNode).ok());
    EXPECT_GE(byte_quota.held(1), kSize) << "somebody reads it";
    hold.reset();
    EXPECT_LE(byte_quota.held(1), kBeside);
    EXPECT_LE(ledger.held(MemoryKind::kSessions), kBeside);
  }
  EXPECT_EQ(ledger.held(MemoryKind::kSessions), 0u);
}

TEST(NodeGraphMemory, SessionsHoldHalfOfAllMemoryAtMostWhereverTheirDataLies) {
  base::MemoryLedger ledger(2 << 20);
  session::ByteQuota byte_quota(4 << 20, 4 << 20, &ledger);
  session::Reservation reservation(&byte_quota, 1);
  NodeGraph g({}, &reservation);
  auto add = [&](const char* node) {
    auto data = base::adopt(&ledger, base::MemoryKind::kSlabs, std::string(500'000, 'x'));
    return g.add(leaf_of(node, *std::move(data))).has_value();
  };
  EXPECT_TRUE(add("a"));
  EXPECT_TRUE(add("b"));
  EXPECT_FALSE(add("c"));
}

}  // namespace
}  // namespace weir::evergreen
