#include "net/linger.h"

#include <gtest/gtest.h>

#include <future>
#include <string>
#include <thread>

#include "base/clock.h"
#include "lab.h"

namespace weir::net {
namespace {

using lab::Peer;
using lab::Running;
using namespace std::chrono_literals;
using For = Linger::For;

constexpr base::Time kBegin{};

TEST(Linger, IsAMomentForWhoIsSilent) {
  wire::Limits limits;
  for (For what : {For::kMoment, For::kRequest}) {
    Linger linger(kBegin, what);
    EXPECT_TRUE(linger.goes_on(kBegin + Linger::kMoment, limits));
    EXPECT_FALSE(linger.goes_on(kBegin + Linger::kMoment + 1ms, limits));
  }
}

TEST(Linger, WaitsForARequestThatComes) {
  wire::Limits limits;
  Linger linger(kBegin, For::kRequest), brief(kBegin, For::kMoment);
  for (auto t = 1s; t < wire::UnreadBody::kMost; t += 1s) {
    linger.took(limits.min_body_rate, kBegin + t), brief.took(limits.min_body_rate, kBegin + t);
    ASSERT_TRUE(linger.goes_on(kBegin + t + 900ms, limits)) << t.count();
  }
  EXPECT_FALSE(linger.goes_on(kBegin + wire::UnreadBody::kMost, limits));
  EXPECT_FALSE(brief.goes_on(kBegin + 3s, limits));
}

// A head that came a byte at a time, for one.
TEST(Linger, DoesNotWaitForWhoIsSlowerThanARequestMayBe) {
  wire::Limits limits;
  Linger linger(kBegin, For::kRequest);
  for (auto t = 1s; t <= Linger::kMoment; t += 1s) linger.took(limits.min_body_rate - 1, kBegin + t);
  EXPECT_FALSE(linger.goes_on(kBegin + Linger::kMoment + 1ms, limits));
  limits.min_body_rate = 0;
  EXPECT_TRUE(linger.goes_on(kBegin + Linger::kMoment + 1ms, limits));
}

TEST(Linger, EndsWhereNothingComesAnyMoreOrTooMuch) {
  wire::Limits limits;
  Linger linger(kBegin, For::kRequest);
  linger.took(100 * limits.min_body_rate, kBegin + 1s);
  EXPECT_TRUE(linger.goes_on(kBegin + 5s, limits));
  EXPECT_FALSE(linger.goes_on(kBegin + 1s + wire::UnreadBody::kQuiet, limits));
  linger.took(wire::UnreadBody::most(limits), kBegin + 5s);
  EXPECT_FALSE(linger.goes_on(kBegin + 5s, limits));
}

// Sends some bytes each 50 ms until that fails, or `most` is over. Returns how long it went on.
base::Duration send_on(Peer& peer, base::Duration most, size_t bytes = 1024) {
  const auto begin = base::steady_now();
  const std::string more(bytes, 'm');
  while (base::steady_now() - begin < most && peer.send(more)) std::this_thread::sleep_for(50ms);
  return base::steady_now() - begin;
}

// A client that looks at its answer only behind its request finds it.
TEST(Linger, TheLastAnswerWaitsForTheEndOfTheRequest) {
  Running rig;
  Peer peer(rig.port());
  ASSERT_TRUE(peer.send("!close\n"));
  EXPECT_GE(send_on(peer, Linger::kMoment + 1500ms), Linger::kMoment + 1500ms);
  peer.half_close();
  EXPECT_EQ(peer.read_all(), "sniff:bye\n");
  EXPECT_EQ(peer.error(), 0);
}

TEST(Linger, AFloodIsNotWaitedFor) {
  Running rig;
  Peer peer(rig.port());
  ASSERT_TRUE(peer.send("!flood\n"));
  EXPECT_LT(send_on(peer, 8s), 6s);
}

TEST(Linger, ASlowPeerIsNotWaitedFor) {
  Running rig;
  Peer peer(rig.port());
  ASSERT_TRUE(peer.send("!close\n"));
  EXPECT_LT(send_on(peer, 8s, 1), 6s);
}

TEST(Linger, ADrainCutsShortWhatLingersAlready) {
  Running rig;
  Peer peer(rig.port());
  ASSERT_TRUE(peer.send("!close\n"));
  EXPECT_EQ(peer.read_all(), "sniff:bye\n");
  std::promise<bool> done;
  rig.server->drain([&](bool clean) { done.set_value(clean); });
  EXPECT_LT(send_on(peer, 8s), 6s);
  auto drained = done.get_future();
  ASSERT_EQ(drained.wait_for(5s), std::future_status::ready);
  EXPECT_TRUE(drained.get());
}

}  // namespace
}  // namespace weir::net
