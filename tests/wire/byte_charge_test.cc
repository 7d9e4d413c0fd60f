#include "wire/byte_charge.h"

#include <gtest/gtest.h>

#include "support/fake_wire.h"

namespace weir::wire {
namespace {

struct Charged : testing::Test {
  explicit Charged(uint64_t per_minute = 2 * ByteCharge::kStep) {
    base::UsageLimits limits;
    limits.bytes_per_minute = per_minute;
    who.limiter = std::make_shared<base::UsageLimiter>("key", limits);
    x.mutable_request().identity = &who;
  }
  bool over() { return !who.limiter->again(x.now()).ok(); }

  Identity who;
  support::FakeExchange x{"POST", "/"};
  ByteCharge charge;
};

TEST_F(Charged, ALongStreamIsChargedWhileItGoesOn) {
  x.record().bytes_in = 2 * ByteCharge::kStep - 1;
  charge.note(x);
  EXPECT_FALSE(over());
  x.record().bytes_out = ByteCharge::kStep - 1;
  charge.note(x);
  EXPECT_FALSE(over()) << "less than a step since the last time";
  x.record().bytes_out += 1;
  charge.note(x);
  EXPECT_TRUE(over());
}

TEST_F(Charged, AShortOneIsChargedOnceAtItsEnd) {
  x.record().bytes_in = ByteCharge::kStep - 1;
  charge.note(x);
  charge.settle(x), charge.settle(x);
  EXPECT_FALSE(over());
  charge.reset();
  charge.settle(x);
  EXPECT_FALSE(over());
  x.record().bytes_in += 2;
  charge.settle(x);
  EXPECT_TRUE(over()) << "that of another request";
}

TEST_F(Charged, NobodyIsChargedWhereNobodyIsAsked) {
  x.mutable_request().identity = nullptr;
  x.record().bytes_in = 100 * ByteCharge::kStep;
  charge.note(x);
  charge.settle(x);
  EXPECT_FALSE(over());
}

}  // namespace
}  // namespace weir::wire
