// The order of turns among tenants.
#include "sched/fair_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "support/heap_in_use.h"

namespace weir::sched {
namespace {

using Slot = FairQueue::Slot;

// Calls are named by numbers, in the order in which they come.
struct Queue {
  explicit Queue(uint32_t round = 1) : fair(round) {}
  size_t put(uint64_t tenant, uint32_t rows = 1) {
    Slot slot = fair.push(tenant, rows);
    if (slot >= calls.size()) calls.resize(slot + 1);
    calls[slot] = {made, tenant, rows};
    return made++;
  }
  uint64_t serve() {  // the tenant whose turn it is
    Slot slot = fair.first();
    fair.serve(slot);
    return calls[slot].tenant;
  }
  std::vector<size_t> order() const {
    std::vector<size_t> out;
    for (Slot slot = fair.first(); slot != FairQueue::kNone; slot = fair.after(slot)) out.push_back(calls[slot].number);
    return out;
  }
  size_t ahead_of(size_t call) const {
    auto all = order();
    return size_t(std::find(all.begin(), all.end(), call) - all.begin());
  }
  struct Call {
    size_t number;
    uint64_t tenant;
    uint32_t rows;
  };
  FairQueue fair;
  std::vector<Call> calls;  // by slot
  size_t made = 0;
};

TEST(FairQueue, OneTenantIsServedFirstInFirstOut) {
  Queue q(4);
  for (uint32_t i = 0; i < 100; ++i) q.put(7, 1 + i % 5);
  auto order = q.order();
  EXPECT_EQ(order.size(), 100u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST(FairQueue, AFirstCallStandsBehindOneOfEachOtherTenantHoweverManyTheyHave) {
  for (uint32_t greedy : {1u, 10u, 1000u, 100'000u}) {
    Queue q;
    for (uint32_t i = 0; i < greedy; ++i) q.put(1);
    for (uint64_t light = 2; light <= 10; ++light) EXPECT_LE(q.ahead_of(q.put(light)), 1 + (light - 2)) << greedy;
  }
}

TEST(FairQueue, InTheMidstOfARoundItStandsBehindLessThanTwoOfEachOther) {
  Queue q(8);
  for (int i = 0; i < 1000; ++i) q.put(1);
  for (int i = 0; i < 21; ++i) q.serve();  // in the midst of a round
  EXPECT_EQ(q.ahead_of(q.put(2)), 3u + 8u);
  for (int i = 0; i < 100; ++i) q.put(2);
  EXPECT_EQ(q.ahead_of(q.put(3)), 3u + 8u + 8u);
}

// Nine tenants have one call each, and the next when that was served; the tenth has all that it can.
TEST(FairQueue, ManyLightTenantsDoNotStarveAGreedyOne) {
  Queue q;
  std::map<uint64_t, int> served;
  for (int i = 0; i < 256; ++i) q.put(0);
  for (uint64_t light = 1; light <= 9; ++light) q.put(light);
  for (int i = 0; i < 10'000; ++i) {
    uint64_t tenant = q.serve();
    ++served[tenant];
    q.put(tenant);
  }
  for (auto [tenant, calls] : served) EXPECT_NEAR(calls, 1000, 1) << tenant;
}

// Each of them comes once and has just one call.
TEST(FairQueue, NewTenantsWithoutEndDoNotStarveThoseThatWait) {
  Queue q;
  for (int i = 0; i < 10; ++i) q.put(0);
  int turns = 0;
  for (uint64_t tenant = 1; q.fair.size() > 0 && tenant <= 300; ++tenant) {
    for (uint64_t n = 0; n < 3; ++n) q.put(1000 * tenant + n);
    turns += q.serve() == 0;
    turns += q.serve() == 0;
  }
  EXPECT_GE(turns, 9) << "a round has all that came during the one before, and grows by half";
}

TEST(FairQueue, TurnsAreCountedInRows) {
  Queue q(2);
  std::map<uint64_t, uint32_t> rows;
  for (int i = 0; i < 64; ++i)
    for (uint32_t tenant : {1u, 2u, 3u}) q.put(tenant, 1 << tenant);
  for (int i = 0; i < 900; ++i) {
    uint64_t tenant = q.serve();
    rows[tenant] += 1u << tenant;
    q.put(tenant, 1u << tenant);
  }
  for (auto [tenant, n] : rows) EXPECT_NEAR(n, rows[1], 16) << tenant;
}

TEST(FairQueue, ACallThatLeavesIsNotChargedFor) {
  Queue q;
  q.put(1), q.put(1);
  std::vector<Slot> gone;
  for (int i = 0; i < 50; ++i) gone.push_back(q.fair.push(2, 1));
  for (Slot slot : gone) q.fair.leave(slot);
  EXPECT_EQ(q.ahead_of(q.put(2)), 1u);
}

TEST(FairQueue, DelayedCallsComeAfterAllOthersInTurnsOfTheirOwn) {
  Queue q;
  auto a = q.put(1), b = q.put(1), c = q.put(2);
  for (Slot slot : {0u, 1u, 2u}) q.fair.delay(slot);
  auto d = q.put(1);
  EXPECT_EQ(q.order(), (std::vector<size_t>{d, a, c, b}));
  EXPECT_TRUE(q.fair.delayed(0));
  EXPECT_EQ(q.serve(), 1u);
  EXPECT_EQ(q.serve(), 1u);
  EXPECT_EQ(q.serve(), 2u);
}

TEST(FairQueue, TheTenantThatHasMostMakesRoomForOthers) {
  Queue q;
  for (int i = 0; i < 3; ++i) q.put(1);
  for (int i = 0; i < 4; ++i) q.put(2);
  EXPECT_EQ(q.calls[q.fair.surplus(3)].number, 6u);
  EXPECT_EQ(q.fair.surplus(2), FairQueue::kNone) << "it has most itself";
  EXPECT_EQ(q.fair.surplus(1), FairQueue::kNone) << "it would then have as many as it takes from";
  q.fair.leave(q.fair.surplus(3));
  EXPECT_EQ(q.calls[q.fair.surplus(3)].number, 2u);
}

TEST(FairQueue, WithOneCallEachNobodyMakesRoom) {
  Queue q;
  for (uint64_t tenant = 0; tenant < 20; ++tenant) q.put(tenant);
  EXPECT_EQ(q.fair.surplus(99), FairQueue::kNone);
}

TEST(FairQueue, TenantsThatAreGoneAreForgotten) {
  Queue q;
  size_t most = 0;
  for (uint64_t tenant = 0; tenant < 100'000; ++tenant) {
    q.put(tenant);
    if (q.fair.size() > 10) q.serve();
    most = std::max(most, q.fair.tenants());
  }
  EXPECT_LE(most, 64u);
}

// The queue's promise in a naive form: on time before delayed, then by round, then as they joined the line.
struct Naive {
  struct Call {
    size_t number;
    uint64_t tenant, start, joined;
    uint32_t rows;
    bool delayed;
  };
  explicit Naive(uint64_t r) : round(r) {}
  void join(Call call) {
    call.start = std::max(next[call.delayed], served[{call.delayed, call.tenant}]);
    uint64_t free = 0;
    for (auto& other : calls)
      if (other.tenant == call.tenant && other.delayed == call.delayed) free = std::max(free, other.start + other.rows);
    if (free > 0) call.start = free;
    call.joined = ++joins;
    calls.push_back(call);
    std::stable_sort(calls.begin(), calls.end(), [&](const Call& a, const Call& b) {
      return std::tuple(a.delayed, a.start / round, a.joined) < std::tuple(b.delayed, b.start / round, b.joined);
    });
  }
  void serve(size_t at) {
    auto call = calls[at];
    calls.erase(calls.begin() + ptrdiff_t(at));
    served[{call.delayed, call.tenant}] = call.start + call.rows;
    next[call.delayed] = std::max(next[call.delayed], (call.start / round + 1) * round);
    end[call.delayed] = std::max(end[call.delayed], call.start + call.rows);
    bool none = std::none_of(calls.begin(), calls.end(), [&](auto& c) { return c.delayed == call.delayed; });
    if (none) next[call.delayed] = std::max(next[call.delayed], end[call.delayed]);
  }
  std::vector<size_t> order() const {
    std::vector<size_t> out;
    for (auto& call : calls) out.push_back(call.number);
    return out;
  }
  uint64_t round, next[2] = {}, end[2] = {}, joins = 0;
  std::map<std::pair<bool, uint64_t>, uint64_t> served;
  std::vector<Call> calls;
};

TEST(FairQueue, DoesAsANaiveOneDoes) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    auto draw = [&](uint32_t n) { return uint32_t(random() % n); };
    uint32_t round = 1u << draw(4), tenants = 1 + draw(40), longest = 1 + draw(64);
    Queue q(round);
    Naive naive(round);
    std::map<size_t, Slot> slots;
    for (int step = 0; step < 600; ++step) {
      uint32_t what = draw(10);
      auto order = naive.order();
      size_t some = order.empty() ? 0 : draw(uint32_t(order.size()));
      if (what < 5 || order.empty()) {
        uint64_t tenant = draw(tenants) * uint64_t(0x10001);
        uint32_t rows = 1 + draw(longest);
        Slot slot = q.fair.push(tenant, rows);
        if (slot >= q.calls.size()) q.calls.resize(slot + 1);
        q.calls[slot] = {q.made, tenant, rows};
        slots[q.made] = slot;
        naive.join({q.made++, tenant, 0, 0, rows, false});
      } else if (what < 8) {
        q.fair.serve(slots[order[0]]);
        naive.serve(0);
      } else if (what == 8) {
        q.fair.leave(slots[order[some]]);
        naive.calls.erase(naive.calls.begin() + ptrdiff_t(some));
      } else if (!naive.calls[some].delayed) {
        auto call = naive.calls[some];
        naive.calls.erase(naive.calls.begin() + ptrdiff_t(some));
        call.delayed = true;
        naive.join(call);
        q.fair.delay(slots[call.number]);
      }
      ASSERT_EQ(q.order(), naive.order()) << "seed " << seed << ", step " << step;
      ASSERT_EQ(q.fair.size(), naive.calls.size());
    }
  }
}

TEST(FairQueue, AnEmptyQueueGivesBackWhatManyCallsHaveTaken) {
  Queue q;
  q.put(1);
  q.serve();
  const size_t before = support::heap_in_use();
  if (before == 0) GTEST_SKIP() << "a sanitizer's malloc";
  std::vector<Slot> slots;
  for (int i = 0; i < 20'000; ++i) slots.push_back(q.fair.push(1, 1));
  EXPECT_GT(support::heap_in_use(), before + 1'000'000);
  for (Slot slot : slots) q.fair.serve(slot);
  slots = std::vector<Slot>();
  EXPECT_LT(support::heap_in_use(), before + 100'000);
  EXPECT_EQ(q.put(2), 1u);
  EXPECT_EQ(q.serve(), 2u);
}

}  // namespace
}  // namespace weir::sched
