#include "base/attempt.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

namespace weir::base {
namespace {

TEST(Attempt, WorkThatDoesNotThrowIsOk) {
  int ran = 0;
  EXPECT_TRUE(attempt("a test", [&] { ++ran; }).ok());
  EXPECT_EQ(ran, 1);
}

TEST(Attempt, ALackOfMemoryIsWorthTryingAgain) {
  auto status = attempt("a test", [] { throw std::bad_alloc(); });
  EXPECT_EQ(status.code, Code::kResourceExhausted);
  EXPECT_TRUE(worth_trying_again(status));
}

TEST(Attempt, AnythingElseIsInternalAndItsTextIsNotPassedOn) {
  auto status = attempt("a test", [] { throw std::runtime_error("at 0xdeadbeef"); });
  EXPECT_EQ(status, failure(Code::kInternal, "internal error"));
  EXPECT_EQ(attempt("a test", [] { throw 7; }), status);
}

}  // namespace
}  // namespace weir::base
