#include "base/workers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <string>
#include <utility>
#include <vector>

namespace weir::base {
namespace {

TEST(Workers, WorkIsDoneInItsOrderAndAllOfItBeforeTheEnd) {
  std::vector<int> done;
  {
    Workers workers(1);
    for (int i = 0; i < 100; ++i) workers.post([&, i] { done.push_back(i); });
  }
  ASSERT_EQ(done.size(), 100u);
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
}

TEST(Workers, AsManyThreadsWorkAsThereMayBe) {
  std::promise<void> both;
  std::atomic<int> inside{0};
  auto future = both.get_future().share();
  Workers workers(2);
  for (int i = 0; i < 2; ++i)
    workers.post([&] {
      if (inside.fetch_add(1) == 1) both.set_value();
      future.wait();
    });
  future.wait();
  EXPECT_EQ(inside.load(), 2);
}

// The events at a worker that the test kept from beginning, by their first letters.
std::string order_of(std::vector<std::pair<std::string, Workers::Share>> posts) {
  std::string done;
  std::promise<void> go;
  {
    Workers workers(1);
    workers.post([future = go.get_future().share()] { future.wait(); }, {'z', 1});
    for (auto& [name, share] : posts) workers.post([&done, name = name] { done += name; }, share);
    go.set_value();
  }
  return done;
}

TEST(Workers, AClientsSecondPieceOfWorkStandsBehindTheFirstOnesOfOthers) {
  EXPECT_EQ(order_of({{"a1 ", {1, 1000}}, {"a2 ", {1, 1000}}, {"a3 ", {1, 1000}}, {"b1 ", {2, 9000}}, {"c1 ", {3, 1}}}),
            "a1 b1 c1 a2 a3 ");
}

TEST(Workers, ClientsShareByWhatTheirWorkCosts) {
  EXPECT_EQ(
      order_of({{"A", {1, 100}}, {"A", {1, 100}}, {"b", {2, 40}}, {"b", {2, 40}}, {"b", {2, 40}}, {"b", {2, 40}}}),
      "AbbbAb");
}

}  // namespace
}  // namespace weir::base
