#include "sched/rate_limiter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <semaphore>
#include <thread>
#include <vector>

namespace weir::sched {
namespace {

using Instance = std::unique_ptr<RateLimiter::Instance>;

Instance join(const std::shared_ptr<RateLimiter>& limiter, RateLimit limit, std::string_view place = "cpu") {
  auto instance = RateLimiter::join(limiter, limit, place);
  EXPECT_TRUE(instance) << instance.error().text;
  return std::move(*instance);
}

// Says what the limiter has given out, "R cpu 1/2".
std::string used(const RateLimiter& limiter) {
  std::string out;
  for (const auto& [key, taken] : limiter.used())
    out += (out.empty() ? "" : ", ") + key + ' ' + std::to_string(taken.first) + '/' + std::to_string(taken.second);
  return out;
}

// Waits in a thread of its own.
class Waiter {
 public:
  explicit Waiter(RateLimiter::Instance& instance) : thread_([this, &instance] { instance.acquire(), has_ = true; }) {}
  ~Waiter() { join(); }
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  bool has() const { return has_; }

 private:
  std::atomic<bool> has_{false};
  std::thread thread_;
};

TEST(RateLimiter, ThereIsAsMuchAsTheInstanceThatAsksForMost) {
  auto limiter = std::make_shared<RateLimiter>();
  auto large = join(limiter, {{{"R", false, 4}}}), small = join(limiter, {{{"R", false, 1}, {"G", true, 1}}});
  EXPECT_EQ(used(*limiter), "G 0/1, R cpu 0/4");
  small->acquire();
  EXPECT_EQ(used(*limiter), "G 1/1, R cpu 1/4");
  Waiter waiter(*large);
  EXPECT_FALSE(waiter.has());
  small->release();
  waiter.join();
  EXPECT_EQ(used(*limiter), "G 0/1, R cpu 4/4");
  large->release();
  large.reset();
  EXPECT_EQ(used(*limiter), "G 0/1, R cpu 0/1");
}

TEST(RateLimiter, EachDeviceHasItsOwnAndAGlobalResourceIsOneForAll) {
  auto limiter = std::make_shared<RateLimiter>();
  auto a = join(limiter, {{{"R", false, 1}}}, "cuda:0"), b = join(limiter, {{{"R", false, 1}}}, "cuda:1");
  a->acquire(), b->acquire();
  EXPECT_EQ(used(*limiter), "R cuda:0 1/1, R cuda:1 1/1");
  a->release(), b->release();
  auto c = join(limiter, {{{"G", true, 1}}}, "cuda:0"), d = join(limiter, {{{"G", true, 1}}}, "cuda:1");
  c->acquire();
  Waiter waiter(*d);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(waiter.has());
  c->release();
  waiter.join();
  d->release();
}

TEST(RateLimiter, TheSettingSaysHowManyThereAre) {
  auto limiter = std::make_shared<RateLimiter>(std::map<std::string, uint32_t>{{"R", 2}});
  auto a = join(limiter, {{{"R", false, 1}}}), b = join(limiter, {{{"R", false, 1}}});
  a->acquire(), b->acquire();
  EXPECT_EQ(used(*limiter), "R cpu 2/2");
  a->release(), b->release();
  EXPECT_EQ(RateLimiter::join(limiter, {{{"R", false, 3}}}, "cpu").error().text,
            "an instance needs 3 of resource 'R', and models.resources has 2");
}

TEST(RateLimiter, WhoNeedsOtherResourcesDoesNotWait) {
  auto limiter = std::make_shared<RateLimiter>();
  auto a = join(limiter, {{{"R", false, 1}}}), b = join(limiter, {{{"R", false, 1}}});
  auto other = join(limiter, {{{"S", false, 1}}});
  a->acquire();
  Waiter waiter(*b);
  other->acquire();
  other->release();
  a->release();
  waiter.join();
  b->release();
}

// Three lanes that always have work: whenever one ends its turn, the two others wait.
TEST(RateLimiter, TurnsGoByPriority) {
  auto limiter = std::make_shared<RateLimiter>();
  Instance instances[3];
  for (int i = 0; i < 3; ++i) instances[i] = join(limiter, {{{"R", false, 1}}, i < 2 ? 1u : 3u});
  std::atomic<int> running = -1;
  std::atomic<bool> end = false;
  std::counting_semaphore<> go[3] = {std::counting_semaphore<>(0), std::counting_semaphore<>(0),
                                     std::counting_semaphore<>(0)};
  std::vector<std::thread> lanes;
  for (int i = 0; i < 3; ++i)
    lanes.emplace_back([&, i] {
      while (!end) {
        instances[i]->acquire();
        running = i;
        go[i].acquire();
        instances[i]->release();
      }
    });
  int turns[3] = {0, 0, 0};
  for (int turn = 0; turn < 70; ++turn) {
    while (limiter->waiting() < 2 || running < 0) std::this_thread::yield();
    const int lane = running.exchange(-1);
    ++turns[lane];
    go[lane].release();
  }
  end = true;
  for (auto& each : go) each.release();
  for (auto& lane : lanes) lane.join();
  EXPECT_NEAR(turns[0], 30, 1);
  EXPECT_NEAR(turns[1], 30, 1);
  EXPECT_NEAR(turns[2], 10, 1);
}

}  // namespace
}  // namespace weir::sched
