// One greedy tenant among light ones: counted in positions and batches, not in time.
#include <algorithm>

#include "line.h"

namespace weir::sched {
namespace {

constexpr uint64_t kGreedy = 100;

struct TenantLine : Line {
  using Line::Line;
  msg::Call& from(uint64_t tenant, uint32_t rows = 1) {
    auto& call = calls.emplace_back();
    call.tenant = tenant;
    fill(call, rows);
    return queue(call);
  }
  // The batches that close up to the one with this call in it; those of the greedy tenant come again at once.
  int batches_until(const msg::Call& wanted) {
    std::vector<msg::Call*> batch;
    for (int n = 1; n < 1000; ++n) {
      batcher.next(now, batch, dropped);
      if (std::find(batch.begin(), batch.end(), &wanted) != batch.end()) return n;
      for (auto* call : batch)
        if (call->tenant == kGreedy) from(kGreedy);
    }
    return 1000;
  }
};

TEST(BatcherTenants, AFullQueueOfOneDelaysAnothersFirstRequestByNoMoreThanTheNextBatch) {
  for (uint32_t max_batch : {1u, 4u, 16u, 64u}) {
    TenantLine t(spec_of(max_batch));
    while (t.status.ok()) t.from(kGreedy);
    EXPECT_EQ(t.batcher.size(), 256u);
    t.next();
    EXPECT_LE(t.batches_until(t.from(1)), max_batch == 1 ? 2 : 1) << max_batch;
  }
}

// Each light tenant has one request at a time; the greedy one has the queue full whenever it can.
TEST(BatcherTenants, NineLightOnesBesideAGreedyOne) {
  TenantLine t(spec_of(8));
  std::vector<size_t> served(10), waited(10);
  std::vector<msg::Call*> batch;
  auto flood = [&] {
    do t.from(kGreedy);
    while (t.status.ok());
  };
  flood();
  for (uint64_t light = 1; light <= 9; ++light) t.from(light);
  for (int step = 0; step < 1000; ++step) {
    t.batcher.next(t.now, batch, t.dropped);
    ASSERT_EQ(batch.size(), 8u) << "every batch is full";
    for (auto& w : waited) ++w;
    for (auto* call : batch) {
      bool light = call->tenant != kGreedy;
      ++served[light ? call->tenant : 0];
      if (!light) continue;
      EXPECT_LE(waited[call->tenant], 2u) << "ten tenants, eight rows: the next batch, or the one after it";
      waited[call->tenant] = 0;
      t.from(call->tenant);
      EXPECT_TRUE(t.status.ok()) << "a light tenant is not refused";
    }
    flood();
  }
  for (auto& [call, why] : t.dropped) EXPECT_EQ(call->tenant, kGreedy);
  for (size_t n : served) EXPECT_GE(n, 760u) << "of 800: nobody is more than one turn behind now and then";
}

TEST(BatcherTenants, RequestsPushedOutAreTheNewestOfTheOneThatHasMost) {
  auto spec = spec_of(1);
  spec.batching.max_queue = 10;
  TenantLine t(spec);
  std::vector<msg::Call*> greedy;
  for (int i = 0; i < 10; ++i) greedy.push_back(&t.from(kGreedy));
  for (uint64_t light = 1; light <= 5; ++light) {
    t.from(light);
    EXPECT_TRUE(t.status.ok());
    ASSERT_EQ(t.dropped.size(), light);
    EXPECT_EQ(t.dropped.back().call, greedy[10 - light]);
    EXPECT_EQ(t.dropped.back().status.code, base::Code::kResourceExhausted);
  }
  EXPECT_EQ(t.batcher.size(), 10u);
  t.from(kGreedy);
  EXPECT_EQ(t.status.code, base::Code::kResourceExhausted) << "the one that has most is refused";
}

// A tenant for each request: nobody has more than another, and none of them costs more than the first.
TEST(BatcherTenants, AsManyTenantsAsRequests) {
  auto spec = spec_of(4);
  spec.batching.max_queue = 64;
  TenantLine t(spec);
  std::vector<msg::Call*> batch;
  for (uint64_t tenant = 0; tenant < 20'000; ++tenant) {
    bool room = t.batcher.size() < 64;
    t.from(tenant);
    EXPECT_EQ(t.status.ok(), room);
    if (tenant % 5 < 4) continue;
    t.batcher.next(t.now, batch, t.dropped);
    EXPECT_EQ(batch.size(), 4u);
  }
  EXPECT_TRUE(t.dropped.empty());
}

}  // namespace
}  // namespace weir::sched
