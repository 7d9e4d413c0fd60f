#include "base/clients.h"

#include <gtest/gtest.h>

#include <new>
#include <vector>

#include "base/client_slabs.h"

namespace weir::base {
namespace {

using Limited = Client::Limited;

TEST(ShareRule, NobodyIsLimitedWhileThereIsRoom) {
  ShareRule rule;
  EXPECT_TRUE(rule.allows(49, 1, 49, 100));
  EXPECT_FALSE(rule.allows(50, 1, 50, 100)) << "more than half, and more than a quarter";
  EXPECT_TRUE(rule.allows(24, 1, 80, 100));
  EXPECT_FALSE(rule.allows(25, 1, 80, 100));
  EXPECT_TRUE(rule.allows(0, 25, 99, 100)) << "what there is in all is not its business";
  EXPECT_FALSE(rule.allows(0, 26, 99, 100));
}

TEST(ShareRule, EverybodyMayHaveTheLeast) {
  ShareRule rule{.percent = 25, .least = 8};
  EXPECT_TRUE(rule.allows(7, 1, 9, 10));
  EXPECT_FALSE(rule.allows(8, 1, 9, 10));
  EXPECT_TRUE((ShareRule{.percent = 100}.allows(99, 1, 99, 100)));
  EXPECT_TRUE((ShareRule{.percent = 1}.share(UINT64_MAX) > 0));
}

TEST(Clients, OneNameIsOneClientWhileItIsReferredTo) {
  Clients clients;
  auto a = clients.enter("192.0.2.1", Limited::kYes), b = clients.enter("192.0.2.1", Limited::kYes);
  auto c = clients.enter("192.0.2.2", Limited::kNo);
  EXPECT_EQ(a.get(), b.get());
  EXPECT_NE(a.get(), c.get());
  a->add(Held::kConnections, 2);
  EXPECT_EQ(b->held(Held::kConnections), 2u);
  EXPECT_FALSE(a->may_have(Held::kConnections, 1, {}, 5, 6));
  EXPECT_TRUE(c->may_have(Held::kConnections, 100, {}, 5, 6)) << "a proxy is not limited";
}

TEST(Clients, ThoseThatHaveGoneAreForgotten) {
  Clients clients;
  auto kept = clients.enter("kept", Limited::kYes);
  auto charged = clients.enter("charged", Limited::kYes);
  charged->add(Held::kSlabBytes, 100);
  Client* slabs = charged.get();
  charged = {};
  for (int i = 0; i < 10'000; ++i) (void)clients.enter(std::to_string(i), Limited::kYes);
  EXPECT_LT(clients.size(), 200u);
  EXPECT_EQ(clients.enter("kept", Limited::kYes).get(), kept.get());
  EXPECT_EQ(clients.enter("charged", Limited::kYes).get(), slabs) << "slabs that are out keep their client";
  slabs->take_off(Held::kSlabBytes, 100);
}

// A pool without memory of its own.
struct Pool final : SlabSource {
  Slab* take(size_t bytes) override { return memory.take(MemoryKind::kSlabs, bytes) ? heap_slab(bytes) : nullptr; }
  void charge(Slab* slab, Client& client) override { client.add(Held::kSlabBytes, slab->capacity); }
  MemoryLedger* ledger() override { return &memory; }

  MemoryLedger memory{1 << 20};
};

TEST(ClientSlabs, AreOfOneClientWhichGetsItsShareOfWhatIsScarce) {
  Pool pool;
  Clients clients;
  ClientSlabs its(pool, clients.enter("192.0.2.1", Limited::kYes), {}), others(pool, {}, {});
  std::vector<Bytes> taken;
  auto take = [&](ClientSlabs& from, size_t bytes) {
    Slab* slab = from.take(bytes);
    if (slab) taken.emplace_back(slab, slab->data, slab->capacity);
    return slab != nullptr;
  };
  EXPECT_TRUE(take(its, 400 << 10)) << "there is room";
  EXPECT_EQ(clients.enter("192.0.2.1", Limited::kYes)->held(Held::kSlabBytes), 400u << 10);
  EXPECT_THROW(take(its, 200 << 10), std::bad_alloc) << "more than half, and more than a quarter";
  EXPECT_TRUE(take(others, 400 << 10));
  EXPECT_FALSE(take(others, 400 << 10)) << "the pool has no more";
}

}  // namespace
}  // namespace weir::base
