#include "bus/mailbox.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace weir::bus {
namespace {

msg::Mail mail(uint32_t id, uint32_t position) { return {nullptr, {msg::Token{id, position}}}; }
uint32_t position(const msg::Mail& m) { return std::get<msg::Token>(m.event.what).position; }

TEST(Mailbox, WakesOncePerIdleToBusyEdge) {
  int wakes = 0;
  Mailbox box([&] { ++wakes; });
  std::vector<msg::Mail> burst, out;
  for (uint32_t i = 0; i < 3; ++i) {
    burst.push_back(mail(0, i));
    box.post(burst);
    EXPECT_TRUE(burst.empty());
  }
  EXPECT_EQ(wakes, 1);
  ASSERT_TRUE(box.drain(out));
  ASSERT_EQ(out.size(), 3u);
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(position(out[i]), i);
  EXPECT_FALSE(box.drain(out));
  burst.push_back(mail(0, 9));
  box.post(burst);
  EXPECT_EQ(wakes, 2);
}

TEST(Mailbox, AnEmptyBurstWakesNobody) {
  int wakes = 0;
  Mailbox box([&] { ++wakes; });
  std::vector<msg::Mail> burst;
  box.post(burst);
  EXPECT_EQ(wakes, 0);
}

TEST(Mailbox, MailPostedHereIsDrainedWithTheRest) {
  int wakes = 0;
  Mailbox box([&] { ++wakes; });
  std::vector<msg::Mail> burst, out;
  box.post_here(mail(1, 1));
  EXPECT_EQ(wakes, 0);
  burst.push_back(mail(0, 0));
  box.post(burst);
  ASSERT_TRUE(box.drain(out));
  EXPECT_EQ(out.size(), 2u);
  box.wake_again();
  EXPECT_EQ(wakes, 1);
  box.post_here(mail(1, 2));
  box.wake_again();
  EXPECT_EQ(wakes, 2);
  box.wake();
  EXPECT_EQ(wakes, 3) << "whether there is mail or not";
  burst.push_back(mail(0, 3));
  box.post(burst);
  box.wake_again();
  EXPECT_EQ(wakes, 5);
  ASSERT_TRUE(box.drain(out));
  EXPECT_EQ(out.size(), 2u);
  box.wake_again();
  EXPECT_EQ(wakes, 5) << "all mail has been seen";
}

TEST(Mailbox, DoesNotGoBeforeTheLaneThatWakesItsShardHasLeft) {
  std::atomic<bool> inside{false}, leave{false}, gone{false};
  auto box = std::make_unique<Mailbox>([&] {
    inside = true;
    while (!leave) std::this_thread::yield();
    EXPECT_FALSE(gone);
  });
  std::jthread lane([&, at = box.get()] {
    std::vector<msg::Mail> burst;
    burst.push_back(mail(0, 0));
    at->post(burst);
  });
  while (!inside) std::this_thread::yield();
  std::jthread shard([&] {
    box = nullptr;
    gone = true;
  });
  for (int i = 0; i < 10'000 && !gone; ++i) std::this_thread::yield();
  EXPECT_FALSE(gone);
  leave = true;
}

// The shard sleeps whenever a drain finds nothing, as a loop would: a lost wake would hang this test.
TEST(Mailbox, ManyPostersLoseNothingAndKeepTheirOrder) {
  constexpr uint32_t kPosters = 4, kEach = 20'000;
  std::atomic<uint32_t> wakes{0};
  Mailbox box([&] { wakes.fetch_add(1), wakes.notify_one(); });
  std::vector<std::jthread> posters;
  for (uint32_t id = 0; id < kPosters; ++id)
    posters.emplace_back([&box, id] {
      std::vector<msg::Mail> burst;
      for (uint32_t i = 0; i < kEach; ++i) {
        burst.push_back(mail(id, i));
        if (i % 7 == id || i + 1 == kEach) box.post(burst);
      }
    });
  std::vector<uint32_t> next(kPosters);
  std::vector<msg::Mail> out;
  uint32_t seen = 0, slept_at = 0;
  while (seen < kPosters * kEach) {
    uint32_t now = wakes.load();
    if (!box.drain(out)) {
      wakes.wait(now);
      slept_at = now;
    }
    for (auto& m : out) {
      auto& token = std::get<msg::Token>(m.event.what);
      ASSERT_EQ(token.position, next[token.id]++);
      ++seen;
    }
  }
  EXPECT_FALSE(box.drain(out));
  EXPECT_GE(wakes.load(), slept_at);
}

}  // namespace
}  // namespace weir::bus
