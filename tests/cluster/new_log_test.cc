// How a log begins of which NATS has lost the one before.
#include "nats_log_fixture.h"

namespace weir::cluster {
namespace {

TEST_F(NatsLogTest, ANewLogBeginsOnce) {
  auto a = open("key"), b = open("key"), liar = open("another key");
  EXPECT_FALSE(*a->is_behind({"10", 7}));
  EXPECT_FALSE(*a->is_behind({}));
  ASSERT_TRUE(a->tell_copy({"10", 7}).ok());
  ASSERT_TRUE(b->tell_copy({"10", 8}).ok());
  ASSERT_TRUE(b->tell_copy({"9", 100}).ok());
  ASSERT_TRUE(liar->tell_copy({"10", 9}).ok());
  EXPECT_TRUE(*a->is_behind({"10", 7}));
  EXPECT_TRUE(*a->is_behind({"9", 100})) << "another is of a later log";
  EXPECT_TRUE(*a->is_behind({}));
  EXPECT_FALSE(*b->is_behind({"10", 8}));
  const auto part = b->append_part("copy").value();
  ASSERT_TRUE(liar->begin_with({1, 4, {part}}).ok()) << "which is none";
  EXPECT_FALSE(a->snapshot().value());
  ASSERT_TRUE(b->begin_with({1, 4, {part}}).ok());
  EXPECT_EQ(1u, a->snapshot().value()->sequence);
  EXPECT_EQ("copy", a->read_part(a->snapshot().value()->parts[0]).value());
  EXPECT_EQ(Code::kAborted, a->begin_with({1, 4, {part}}).code);
  EXPECT_FALSE(a->next(1).value());
  const uint64_t first = a->append("id", "entry").value();
  EXPECT_EQ(first, b->next(1).value()->sequence);
  EXPECT_FALSE(b->next(1).value()->gap);
}

TEST_F(NatsLogTest, ALogWithAnEntryHasBegun) {
  auto log = open();
  ASSERT_TRUE(log->append("id", "entry"));
  EXPECT_EQ(Code::kAborted, log->begin_with({1, 4, {log->append_part("copy").value()}}).code);
  EXPECT_FALSE(log->snapshot().value());
}

}  // namespace
}  // namespace weir::cluster
