// Calls that leave the queue before they run: cancelled Calls, deadlines, timeouts, full queues.
#include "line.h"

namespace weir::sched {
namespace {

using base::Code;

TEST(Batcher, AFullQueueRefusesUntilThereIsRoom) {
  auto spec = spec_of(1);
  spec.batching.max_queue = 2;
  Line t(spec);
  t.put("a"), t.put("b");
  EXPECT_TRUE(t.status.ok());
  t.put("c");
  EXPECT_EQ(t.status.code, Code::kResourceExhausted);
  EXPECT_NE(t.status.text.find("(2 requests)"), std::string::npos);
  EXPECT_EQ(t.next(), "a");
  t.put("d");
  EXPECT_TRUE(t.status.ok());
}

TEST(Batcher, CancelledCallsMakeRoomInAFullQueue) {
  auto spec = spec_of(1);
  spec.batching.max_queue = 2;
  Line t(spec);
  t.put("a");
  t.put("b").cancelled = true;
  t.put("c");
  EXPECT_TRUE(t.status.ok());
  EXPECT_EQ(t.left(), "b:CANCELLED ");
  EXPECT_EQ(t.next(), "a");
  EXPECT_EQ(t.next(), "c");
}

TEST(Batcher, CancelledCallsLeaveBeforeTheyCost) {
  Line t(spec_of(2));
  t.put("a").cancelled = true;
  t.put("b"), t.put("c").cancelled = true;
  t.put("d");
  EXPECT_EQ(t.next(), "bd");
  EXPECT_EQ(t.left(), "a:CANCELLED c:CANCELLED ");
  EXPECT_TRUE(t.batcher.empty());
}

TEST(Batcher, CallsPastTheirDeadlineLeave) {
  Line t(spec_of(1));
  t.put("a", 0, 5ms), t.put("b", 0, 20ms);
  t.now += 5ms;
  EXPECT_EQ(t.next(), "b");
  EXPECT_EQ(t.left(), "a:DEADLINE_EXCEEDED ");
}

TEST(Batcher, CallsLeaveAfterTheirQueueTimeout) {
  auto spec = spec_of(1);
  spec.batching.queue_timeout = 10ms;
  Line t(spec);
  t.put("a", 0, 0ms);          // the model's: 10 ms
  t.put("b", 0, 0ms, 4ms);     // its own, shorter
  t.put("c", 0, 0ms, 1000ms);  // its own, longer: does not count
  t.now += 4ms;
  EXPECT_EQ(t.next(), "a");
  EXPECT_EQ(t.left(), "b:UNAVAILABLE ");
  t.now += 6ms;
  EXPECT_EQ(t.next(), "");
  EXPECT_EQ(t.left(), "c:UNAVAILABLE ");
}

TEST(Batcher, WhoeverAsksHearsWhenTheFirstCallLeavesAndTakesItOut) {
  Line t(spec_of(4));
  EXPECT_EQ(t.batcher.leaves_at(), base::kNever);
  t.put("a"), t.put("b", 0, 0ms, 5ms), t.put("c", 0, 3ms), t.put("d", 0, 0ms, 9ms);
  EXPECT_EQ(t.batcher.leaves_at(), t.now + 3ms);
  t.now += 5ms;
  t.batcher.leave(t.now, t.dropped);
  EXPECT_EQ(t.left(), "b:UNAVAILABLE c:DEADLINE_EXCEEDED ");
  EXPECT_EQ(t.batcher.leaves_at(), t.now + 4ms);
  EXPECT_EQ(t.next(), "ad");
  EXPECT_EQ(t.batcher.leaves_at(), base::kNever);
}

TEST(Batcher, ACallNeverWaitsForCompanyUntilItsTimeIsUp) {
  auto spec = spec_of(4);
  spec.batching.max_delay = 100ms;
  Line t(spec);
  t.put("a", 0, 10ms);
  EXPECT_EQ(t.batcher.ready_at(t.now), t.now + 5ms);
  t.now += 5ms;
  EXPECT_EQ(t.next(), "a");
  t.put("b", 0, 0ms, 20ms);
  EXPECT_EQ(t.batcher.ready_at(t.now), t.now + 10ms);
}

TEST(Batcher, WhenHurriedNothingWaits) {
  auto spec = spec_of(8);
  spec.batching.max_delay = 1h;
  spec.batching.preferred = {2};
  Line t(spec);
  t.put("a"), t.put("b"), t.put("c");
  t.batcher.hurry();
  EXPECT_LE(t.batcher.ready_at(t.now), t.now);
  EXPECT_EQ(t.next(), "abc");
}

TEST(Batcher, ADeadlineForEverDoesNotOverflow) {
  auto spec = spec_of(4);
  spec.batching.max_delay = base::Duration::max();
  spec.batching.queue_timeout = base::Duration::max();
  Line t(spec);
  t.put("a");
  EXPECT_EQ(t.next(), "");
  t.batcher.hurry();
  EXPECT_EQ(t.next(), "a");
}

}  // namespace
}  // namespace weir::sched
