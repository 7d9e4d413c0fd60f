// The memory that a Bus keeps while nothing is under way.
#include "bus_fixture.h"

namespace weir::bus {
namespace {

TEST(Bus, AnIdleCallKeepsRoomForSixteenTensorsAndGivesMoreBack) {
  Bench t;
  for (auto [room, kept] : {std::pair<size_t, size_t>(16, 16), {17, 0}}) {
    auto* call = t.bus.make_call();
    call->inputs.reserve(room);
    ASSERT_EQ(call->inputs.capacity(), room);
    t.bus.discard(call);
    ASSERT_EQ(t.bus.make_call(), call);
    EXPECT_EQ(call->inputs.capacity(), kept);
    t.bus.discard(call);
  }
}

TEST(Bus, SixtyFourViewsOfTheCatalogAreKept) {
  Bench t;
  t.bus.publish(std::make_shared<Catalog>(t.bus.catalog()));
  const auto unseen = t.all[0].use_count();
  for (int i = 0; i < 64; ++i) {
    const base::ModelScope scope({"digits", "m" + std::to_string(i)});
    EXPECT_EQ(t.bus.catalog(&scope).models.size(), 1u);
    EXPECT_EQ(t.all[0].use_count(), unseen + 1 + i);
  }
  const base::ModelScope another({"digits"});
  t.bus.catalog(&another);
  EXPECT_EQ(t.all[0].use_count(), unseen + 1) << "they are made anew as they are asked for";
}

TEST(Bus, ATaskThatIsRefusedLeavesItsCallToTheNext) {
  Bench t({0});
  struct Nothing final : OffloadTask {
    void run() override {}
  };
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(t.bus.send(std::make_unique<Nothing>(), 1, t.served(), t.sink, {}, 0));
  auto *first = t.bus.make_call(), *second = t.bus.make_call();
  t.bus.discard(second), t.bus.discard(first);
  EXPECT_FALSE(t.bus.send(std::make_unique<Nothing>(), 1, t.served(), t.sink, {}, 0));
  EXPECT_EQ(t.bus.make_call(), first);
  EXPECT_EQ(t.bus.make_call(), second);
  t.bus.discard(first), t.bus.discard(second);
}

TEST(Bus, ABusThatEndsLeavesNoTimer) {
  base::FakeEnv env;
  Recorder sink;
  Served served;
  served.inbox = std::make_unique<EchoInbox>();
  auto bus = std::make_unique<Bus>(env, base::ShardId(0), [] {});
  auto* call = bus->make_call();
  call->sink = &sink, call->deadline = env.now() + 1s;
  ASSERT_TRUE(bus->submit(call, served).ok());
  bus->turn();
  EXPECT_EQ(env.armed(), 1u);
  bus = nullptr;
  EXPECT_EQ(env.armed(), 0u);
}

}  // namespace
}  // namespace weir::bus
